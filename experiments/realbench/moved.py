"""What moves the tuned rate: horizon, initialization x steps x judge, width, batch, steps, and the peers' twins.

Each function turns tables into one table of the page, or into nothing while one of its tables is unfinished. The
analysis was written before the tables were.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean, median

from depthlr.transfer.recipe import Recipe
from depthlr.transfer.rules import Constant
from experiments.pages import markdown_table
from experiments.realbench.constant import exponent_error
from experiments.realbench.judge import RULES, SHIPPED
from experiments.realbench.kept import is_finished
from experiments.realbench.plan import AXES, HORIZON, LONGEST, POWERS, TWINS, long_variant, of_length, on_axis, twin
from experiments.realbench.recipes import SEEDS, STEPS, recipe_named
from experiments.realbench.scores import Tuned, read_tuned

INITIALIZATIONS = {"the library's": "", "ours": "&variance=gating"}
JUDGES = {"final validation loss": "validation", "mean training loss": "train_mean"}
LENGTHS = (150, 1_500)
SHORTEST = 300
BATCH_POWER = {"adamw": 0.5, "momentum": 1.0}  # of the batch: the usual root rule, and the usual linear one
WIDTH_POWER = {"adamw": -1.0, "momentum": 0.0}  # of the width, for hidden weights in muP


def table_of(variant: str, results: Path) -> Path:
    """The table of a variant's sweep."""
    return results / f"{recipe_named(variant).name}.csv"


def finished(results: Path, variants: Sequence[str]) -> bool:
    """Are all of these swept to their end?"""
    return all(is_finished(table_of(variant, results)) for variant in variants)


# -- horizon -----------------------------------------------------------------------------------------------------------
def horizon_table(results: Path) -> str:
    """Tuned rates of the smallest and the largest size, and their change, at four lengths of a run.

    A rate is marked where some seed's best one is the lowest or the highest that ran: the tuned one may lie beyond it.
    """
    rows = []
    for name, sizes in HORIZON.items():
        for steps in (SHORTEST, STEPS, 1_500, LONGEST):
            found = at_length(name, sizes, steps, results)
            if found is None:
                return ""
            small, large = (found.decades[size] for size in sizes)
            tuned = [f"{10 ** found.decades[size]:.2g}{' (edge)' if size in found.edges else ''}" for size in sizes]
            depths = math.log10(found.depths[sizes[1]] / found.depths[sizes[0]])
            change = large - small
            rows.append([name, f"{steps:,}", *tuned, f"{change:+.2f}"])
            rows[-1] += [f"{change / depths:+.2f}", f"{found.floor:.2f}"]
    head = ("recipe", "steps", "tuned, smallest", "tuned, largest", "change, decades", "exponent of the two", "floor")
    return markdown_table(head, rows) + "\n"


def at_length(name: str, sizes: Sequence[int], steps: int, results: Path) -> Tuned | None:
    """A recipe's smallest and largest size at a length of run; None while it is unfinished."""
    if steps == LONGEST:
        parts = [long_variant(name, size) for size in sizes]
    else:
        parts = [name if steps == STEPS else of_length(name, steps)]
    if not finished(results, parts):
        return None
    found = [read_tuned(table_of(part, results)) for part in parts]
    decades = {size: part.decades[size] for part in found for size in sizes if size in part.decades}
    depths = {size: part.depths[size] for part in found for size in sizes if size in part.depths}
    error = math.sqrt(fmean(part.standard_error**2 for part in found))
    edges = tuple(size for part in found for size in part.edges)
    return Tuned(name, decades, depths, error, (), edges=edges)


# -- initialization x steps x judge ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Corner:
    """One of the eight combinations for one recipe."""

    initialization: str
    steps: int
    judge: str
    exponent: float
    error: float  # one standard error of the exponent
    edges: tuple[int, ...]  # sizes whose best rate is the lowest or highest that was swept


def corners(name: str, results: Path) -> list[Corner] | None:
    """All combinations for one recipe; None while one is unfinished."""
    found = []
    for (start, option), steps, (judge, column) in product(INITIALIZATIONS.items(), LENGTHS, JUDGES.items()):
        variant = of_length(name, steps) + option + ("&metric=budget" if column == "train_mean" else "")
        table = table_of(variant, results)
        if not is_finished(table):
            return None
        tuned = read_tuned(table, column)
        found.append(Corner(start, steps, judge, tuned.exponent, exponent_error(tuned), tuned.edges))
    return found


def factors_table(results: Path) -> str:
    """The exponent in all combinations, and each factor's main effect on it."""
    rows, effects = [], []
    for name in HORIZON:
        found = corners(name, results)
        if found is None:
            return ""
        for one in found:
            edge = f" (edge at {', '.join(map(str, one.edges))})" if one.edges else ""
            values = [one.initialization, f"{one.steps:,}", one.judge, f"{one.exponent:+.2f} +- {one.error:.2f}{edge}"]
            rows.append([name, *values])
        effects += effect_rows(name, found)
    table = markdown_table(("recipe", "initialization", "steps", "judge", "exponent"), rows)
    head = ("recipe", "factor", "from", "to", "change of the exponent", "one standard error")
    return f"{table}\n\n{markdown_table(head, effects)}\n"


def effect_rows(name: str, found: Sequence[Corner]) -> list[list[str]]:
    """For each factor: the mean change of the exponent over the four pairs that differ in it alone."""
    factors: Mapping[str, tuple[str, str]] = {
        "initialization": ("ours", "the library's"),
        "steps": (str(LENGTHS[0]), str(LENGTHS[1])),
        "judge": ("mean training loss", "final validation loss"),
    }
    rows = []
    for factor, (low, high) in factors.items():
        groups = [[one for one in found if str(getattr(one, factor)) == level] for level in (low, high)]
        change = fmean(one.exponent for one in groups[1]) - fmean(one.exponent for one in groups[0])
        # Judges share runs, so their errors are alike and not independent: this error is an upper bound there.
        error = math.sqrt(sum(one.error**2 for one in found)) / len(groups[0])
        rows.append([name, factor, low, high, f"{change:+.2f}", f"{error:.2f}"])
    return rows


# -- other axes --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Move:
    """A transfer between two tables."""

    axis: str
    recipe: str
    source: str
    source_size: int
    target: str
    target_size: int
    usual: float | None  # log10 of the factor that is usual where others state one


def moves(name: str) -> list[Move]:
    """All transfers of one recipe along the axes."""
    text, _ = AXES[name]
    sizes = tuple(map(int, text.split(",")))
    base = recipe_named(name)
    optimizer = base.study.training.optimizer
    narrow, wide, batch = (on_axis(name, change) for change in AXES[name][1])
    batch_ratio = recipe_named(batch).study.training.batch / base.study.training.batch
    width_ratio = 4.0
    by_width = WIDTH_POWER[optimizer] * math.log10(width_ratio) or None
    by_batch = BATCH_POWER[optimizer] * math.log10(batch_ratio)
    shorter = of_length(name, SHORTEST)
    found = [Move("width x4", name, narrow, size, wide, size, by_width) for size in sizes]
    found.append(Move("depth and width x4", name, narrow, sizes[0], wide, sizes[1], by_width))
    found += [Move("batch x4", name, name, size, batch, size, by_batch) for size in sizes]
    return found + [Move("steps x4", name, shorter, size, name, size, None) for size in sizes]


def axes_table(results: Path) -> str:
    """How far tuned rates move along each axis, and what the shipped rule and the usual rules say."""
    rows = []
    for name in AXES:
        for move in moves(name):
            if not finished(results, (move.source, move.target)):
                return ""
            here, there = (read_tuned(table_of(variant, results)) for variant in (move.source, move.target))
            change = there.decades[move.target_size] - here.decades[move.source_size]
            ends = Recipe(here.depths[move.source_size]), Recipe(there.depths[move.target_size])
            shipped = math.log10(Constant().carry(1.0, *ends).factor)
            floor = math.hypot(here.standard_error, there.standard_error)
            usual = "-" if move.usual is None else f"{move.usual:+.2f}"
            sizes = f"{move.source_size} to {move.target_size}"
            edge = " (edge)" if move.source_size in here.edges or move.target_size in there.edges else ""
            rows.append(
                [move.axis, move.recipe, sizes, f"{change:+.2f}{edge}", f"{floor:.2f}", f"{shipped:+.2f}", usual]
            )
            rows[-1] += [f"{abs(change):.2f}", f"{abs(change - shipped):.2f}"]
    head = ("axis", "recipe", "sizes", "tuned change", "floor", "shipped rule says", "usual rule says")
    return markdown_table((*head, "copy errs", "shipped rule errs"), rows) + "\n"


# -- peers -------------------------------------------------------------------------------------------------------------
def peers_table(results: Path) -> str:
    """Errors of the peers on their own twins, beside those of our rules on the models as they are.

    With AdamW, CompleteP copies the rate and Depth-muP multiplies it by (blocks / base)^(-1/2). Both do so for all
    weights here; the peers let embeddings and head keep their rate, which one tuned rate cannot.
    """
    rows = []
    for name in TWINS:
        variants = {peer: twin(name, power) for peer, power in POWERS.items()}
        if not finished(results, (name, *variants.values())):
            return ""
        base = read_tuned(table_of(name, results))
        sizes = sorted(base.decades)[1:]
        for title in ("copy", SHIPPED):
            rows.append(_peer_row(name, title, base, base.changes(RULES[title]), table_of(name, results)))
        for peer, variant in variants.items():
            tuned = read_tuned(table_of(variant, results))
            first = min(tuned.decades)
            power = -0.5 if peer == "Depth-muP" else 0.0
            changes = {size: power * math.log10(size / first) for size in sizes}
            rows.append(_peer_row(name, peer, tuned, changes, table_of(variant, results)))
    head = ("recipe", "rule", "median error", "worst", "exponent", "floor", "best loss at the largest size")
    return markdown_table(head, rows) + "\n"


def _peer_row(name: str, rule: str, tuned: Tuned, changes: Mapping[int, float], table: Path) -> list[str]:
    first = min(tuned.decades)
    errors = [abs(changes[size] - (tuned.decades[size] - tuned.decades[first])) for size in changes]
    best = best_loss(table, max(tuned.decades))
    return [
        name,
        rule,
        f"{median(errors):.2f}",
        f"{max(errors):.2f}",
        f"{tuned.exponent:+.2f}{tuned.note}",
        f"{tuned.floor:.2f}",
        f"{best:.4f}",
    ]


def best_loss(table: Path, size: int) -> float:
    """The least validation loss at one size, with the seed that twins are trained with."""
    with open(table, newline="") as file:
        rows = [row for row in csv.DictReader(file) if (int(row["size"]), int(row["seed"])) == (size, SEEDS[0])]
    return min(float(row["validation"]) for row in rows if row["validation"])
