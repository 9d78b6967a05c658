"""Why the BatchNorm ResNet's rate falls with depth: hypotheses, written down before anything was run, and their tables.

Every hypothesis names what is measured and what would refute it. A change is that of log10 of the tuned rate between
the sizes of the variant, the smallest and the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from experiments.pages import markdown_table
from experiments.realbench.dynamics import DYNAMICS
from experiments.realbench.kept import is_finished
from experiments.realbench.plan import DYNAMICS_OF, WHY, one_seed
from experiments.realbench.recipes import recipe_named
from experiments.realbench.scores import read_tuned

WARM_UP = (30, 60, 119)  # steps of the dynamics that lie within the warm-up of 120
LATE = (600, 900)  # and in the middle of the decay


@dataclass(frozen=True)
class Hypothesis:
    """What could be the reason, what is compared to see it, and what refutes it."""

    name: str
    claim: str
    measured: str
    refuted: str
    look: Callable[[Path], tuple[str, bool]]  # what was found, and whether it refutes; of finished tables


class Unfinished(Exception):
    """A table that a hypothesis needs is not finished."""


def difference(variant: str, results: Path) -> float:
    """The tuned change of a variant, less that of its recipe at the same two sizes."""
    own, other = _changes(variant, results)
    return own - other


def of_variants(unlike: bool, limit: float, *variants: str) -> Callable[[Path], tuple[str, bool]]:
    """Compare variants with their recipe.

    Args:
        unlike: is a difference within the limit what refutes, or one beyond it?
        limit: in decades.
        variants: any of them can refute.
    """

    def look(results: Path) -> tuple[str, bool]:
        found = [difference(variant, results) for variant in variants]
        within = [abs(one) <= limit for one in found]
        return "differs by " + ", ".join(f"{one:+.2f}" for one in found), any(one == unlike for one in within)

    return look


def by_sharpness(results: Path) -> tuple[str, bool]:
    """Minus the change of sharpness, beside the change of the tuned rate. One that is not a number refutes."""
    tuned, change = _dynamics_change(RESNET, "sharpness", WARM_UP, results)
    return f"minus the change of sharpness {-change:+.2f}, tuned {tuned:+.2f}", not abs(-change - tuned) <= NEAR


def by_muon(results: Path) -> tuple[str, bool]:
    """How the output's change depends on the size, with Muon and with AdamW. One that is not a number refutes."""
    (_, muon), (_, adamw) = (_dynamics_change(name, "output_change", WARM_UP, results) for name in (MUON, LLAMA))
    return f"with Muon {muon:+.2f}, with AdamW {adamw:+.2f}", not abs(muon) < abs(adamw)


def changed(name: str, change: str) -> str:
    """The variant of the plan in which a recipe has this one change."""
    return one_seed(name, f"sizes={'1,8' if name == RESNET else '2,8'}", change)


RESNET, MUON, LLAMA = "resnet-momentum-cosine", "llama-muon-cosine", "llama-adamw-wsd"
LIKE, NEAR = 0.05, 0.1  # decades
HYPOTHESES = (
    Hypothesis(
        "weight decay",
        "Convolutions before BatchNorm are scale-invariant. With weight decay their angle per step tends to "
        "sqrt(2 rate decay) at any depth, so the tuned rate would not fall. It falls because weights do not get there.",
        "change of the ResNet without weight decay; angle per step at the end, by size",
        "the change without weight decay is within 0.05 of that with it",
        of_variants(True, LIKE, changed(RESNET, "weight_decay=0.0")),
    ),
    Hypothesis(
        "last gain 0",
        "Branches that begin at zero leave the stream alone. With gain 1 its variance grows with every block, so that "
        "the rate falls faster.",
        "change of the ResNet whose last gain is 1",
        "it is within 0.05 of that with gain 0",
        of_variants(True, LIKE, changed(RESNET, "zero_init=false")),
    ),
    Hypothesis(
        "sharpness",
        "The best rate follows the limit of stability, 2 (1 + momentum) / sharpness, and sharpness grows with depth at "
        "one rate.",
        "change of log10 of sharpness from the smallest to the largest, over steps 30, 60 and 119 and two seeds",
        "minus that change is not within 0.1 of the change of the tuned rate",
        by_sharpness,
    ),
    Hypothesis(
        "momentum",
        "Momentum multiplies the rate by 10 at every depth, so it has no part in the change.",
        "change of the ResNet without momentum",
        "it differs by more than 0.1",
        of_variants(False, NEAR, changed(RESNET, "momentum=0.0")),
    ),
    Hypothesis(
        "batch statistics",
        "The fall comes from scale invariance, which GroupNorm has as well, and not from the noise of statistics of a "
        "batch.",
        "change of the ResNet with GroupNorm",
        "it differs by more than 0.1",
        of_variants(False, NEAR, changed(RESNET, "norm=group")),
    ),
    Hypothesis(
        "Muon",
        "Muon's update has the same size whatever the gradient, so that one step moves the outputs, relative to their "
        "size, equally far at every depth, and the tuned rate needs no change.",
        "change of log10 of the output's change at one rate in warm-up, with Muon and with AdamW; the tuned changes of "
        "both (known from the design half: -0.16 with Muon, -0.02 with AdamW, which speaks against the claim)",
        "with Muon it is not nearer to zero than with AdamW",
        by_muon,
    ),
    Hypothesis(
        "Muon's size",
        "With the update scaled to AdamW's size (0.2 root of the larger side) Muon's decoupled weight decay acts as "
        "AdamW's does. Without weight decay, or with the original scale, the tuned change is the same.",
        "change of the decoder with Muon without weight decay, and with Muon's original scale on all matrices",
        "either differs by more than 0.1",
        of_variants(False, NEAR, changed(MUON, "weight_decay=0.0"), changed(MUON, "muon=all")),
    ),
)


def hypotheses_table(results: Path) -> str:
    """The hypotheses, with what was found where their tables are finished."""
    rows = []
    for one in HYPOTHESES:
        try:
            found, refuted = one.look(results)
        except Unfinished:
            words = "not run"
        else:
            words = f"{found}: {'refuted' if refuted else 'not refuted'}"
        rows.append([one.name, one.claim, one.measured, one.refuted, words])
    return markdown_table(("hypothesis", "claim", "measured", "refuted if", "found"), rows) + "\n"


def _changes(variant: str, results: Path) -> tuple[float, float]:
    """The tuned change of a variant, and that of its recipe, between the variant's smallest and largest size."""
    recipe = recipe_named(variant)
    tables = results / f"{recipe.name}.csv", results / f"{recipe.name.partition('+')[0]}.csv"
    if not all(map(is_finished, tables)):
        raise Unfinished
    sizes = recipe.study.model.sizes
    own, other = (read_tuned(table).decades for table in tables)
    return own[sizes[-1]] - own[sizes[0]], other[sizes[-1]] - other[sizes[0]]


def _dynamics_change(name: str, column: str, steps: Sequence[int], results: Path) -> tuple[float, float]:
    """The tuned change of a recipe over all sizes, and that of log10 of a quantity at one rate."""
    path, table = results / "dynamics" / f"{recipe_named(name).name}.csv", results / f"{name}.csv"
    if not (is_finished(path) and is_finished(table)):
        raise Unfinished
    tuned = read_tuned(table).decades
    return tuned[max(tuned)] - tuned[min(tuned)], change_over_sizes(DYNAMICS.read(path), column, steps)


def changes_table(results: Path) -> str:
    """The tuned change of every variant beside that of its recipe at the same two sizes."""
    rows = []
    for variant in WHY:
        recipe = recipe_named(variant)
        try:
            change, usual = _changes(variant, results)
        except Unfinished:
            return ""
        own, other = (read_tuned(results / f"{name}.csv") for name in (recipe.name, recipe.name.partition("+")[0]))
        floor = math.hypot(own.floor, other.floor)
        sizes = f"{min(own.decades)} to {max(own.decades)}"
        edge = " (edge)" if {*own.edges, *other.edges} & set(own.decades) else ""
        rows.append(
            [recipe.name, sizes, f"{change:+.2f}{edge}", f"{usual:+.2f}", f"{change - usual:+.2f}", f"{floor:.2f}"]
        )
    head = ("variant", "sizes", "tuned change", "the recipe's", "difference", "floor of it")
    return markdown_table(head, rows) + "\n"


def dynamics_table(results: Path) -> str:
    """How each quantity changes from the smallest size to the largest at one rate, in decades; and the tuned change."""
    rows = []
    for name in DYNAMICS_OF:
        recipe = recipe_named(name)
        path = results / "dynamics" / f"{recipe.name}.csv"
        if not is_finished(path):
            return ""
        found = DYNAMICS.read(path)
        base = read_tuned(results / f"{recipe.name.partition('+')[0]}.csv")
        tuned = base.decades[max(base.decades)] - base.decades[min(base.decades)]
        for words, steps in (("warm-up", WARM_UP), ("late", LATE)):
            changes = [f"{change_over_sizes(found, column, steps):+.2f}" for column in COMPARED]
            rows.append([recipe.name, words, f"{tuned:+.2f}", *changes])
    head = ("runs", "when", "the recipe's tuned change", *(column.replace("_", " ") for column in COMPARED))
    return markdown_table(head, rows) + "\n"


COMPARED = ("weight_norm", "relative_update", "angle", "gradient_norm", "sharpness", "step_curvature", "output_change")


def change_over_sizes(rows: Mapping[tuple[str, ...], Mapping[str, str]], column: str, steps: Sequence[int]) -> float:
    """log10 of a column at the largest size over the smallest one: the mean over seeds and steps."""
    found: dict[int, list[float]] = {}
    for row in rows.values():
        if int(row["step"]) in steps:
            found.setdefault(int(row["size"]), []).append(abs(float(row[column])))
    means = {size: fmean(map(math.log10, values)) for size, values in found.items()}
    return means[max(means)] - means[min(means)]
