"""Candidate rules on the design half: each predicts how the tuned rate changes from the smallest size to a larger one.

What a rule fits, it fits on the other recipes. A candidate that needs a table which a recipe does not have yet says
nothing about it.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean, median

from depthlr.transfer.rules import Rule
from experiments.realbench.constant import fit_constant
from experiments.realbench.judge import RULES
from experiments.realbench.recipes import RealRecipe, recipe_named
from experiments.realbench.scores import Tuned, power, read_tuned

WARM_UP = (10, 30, 60, 120)
THIRD = 1 / 3
Changes = Mapping[int, float]  # log10 of the predicted change, by size
Candidate = Callable[[Tuned, Sequence[Tuned], Path], Changes | None]


def of_library(rule: Rule) -> Candidate:
    """A rule of the library, or of one's own, that looks at depths alone."""
    return lambda recipe, others, results: recipe.changes(rule)


def constant(recipe: Tuned, others: Sequence[Tuned], results: Path) -> Changes:
    """One exponent, fitted on the other recipes."""
    return recipe.changes(power(fit_constant(others).exponent))


def reading(steps: Sequence[int], multiple: float) -> Candidate:
    """The change of (E / R)^(-1/2), averaged in decades over these steps and the seeds."""

    def predict(recipe: Tuned, others: Sequence[Tuned], results: Path) -> Changes | None:
        path = results / "readings" / f"{recipe.name}.csv"
        if not path.is_file():
            return None
        found: dict[int, list[float]] = {}
        for row in _rows(path):
            if int(row["step"]) in steps and math.isclose(float(row["multiple"]), multiple, rel_tol=1e-3):
                relative = float(row["energy"]) / float(row["variance"])
                found.setdefault(int(row["size"]), []).append(-0.5 * math.log10(relative))
        first, *larger = sorted(found)
        return {size: fmean(found[size]) - fmean(found[first]) for size in larger}

    return predict


def compressed(recipe: Tuned, others: Sequence[Tuned], results: Path) -> Changes | None:
    """The change of the tuned rate when the whole schedule takes a tenth of the steps."""
    path = results / f"{recipe.name}+steps120.csv"
    if not path.is_file() or not json.loads(path.with_suffix(".json").read_text())["complete"]:
        return None
    short = read_tuned(path)
    first, *larger = sorted(short.decades)
    return {size: short.decades[size] - short.decades[first] for size in larger}


def of_fact(fact: Callable[[RealRecipe], object]) -> Candidate:
    """The mean exponent of the other recipes that share a fact, to which the constant is added as one more recipe."""

    def predict(recipe: Tuned, others: Sequence[Tuned], results: Path) -> Changes:
        own = fact(recipe_named(recipe.name))
        alike = [other.exponent for other in others if fact(recipe_named(other.name)) == own]
        return recipe.changes(power(fmean([fit_constant(others).exponent, *alike])))

    return predict


def norm_placement(recipe: RealRecipe) -> str:
    """Where the model normalizes: before each branch, inside it after a convolution, or by batch statistics."""
    return {"resnet": "batch", "convnext": "inside"}.get(recipe.family, "before")


def mean_of(one: Candidate, other: Candidate, *, weighted: bool = False) -> Candidate:
    """The mean of two candidates; weighted by 1 / (mean square error on the other recipes) if that is asked for."""

    def predict(recipe: Tuned, others: Sequence[Tuned], results: Path) -> Changes | None:
        first, second = one(recipe, others, results), other(recipe, others, results)
        if first is None or second is None:
            return None
        share = 0.5
        if weighted:
            squares = [mean_square_error(candidate, others, results) for candidate in (one, other)]
            share = squares[1] / sum(squares)
        return {size: share * first[size] + (1 - share) * second[size] for size in first}

    return predict


def mean_square_error(candidate: Candidate, recipes: Sequence[Tuned], results: Path) -> float:
    """Over recipes, of the mean square over a recipe's transfers. What is fitted is fitted on the other recipes."""
    found = candidate_errors(candidate, recipes, results).values()
    return fmean(fmean(error**2 for error in errors) for errors in found)


CANDIDATES: dict[str, Candidate] = {
    "copy": of_library(RULES["copy"]),
    "constant exponent": constant,
    "law": of_library(RULES["law"]),
    "reading, step 0": reading((0,), 1.0),
    "readings in warm-up": reading(WARM_UP, 1.0),
    "the same at a third of the rate": reading(WARM_UP, THIRD),
    "the same at three times the rate": reading(WARM_UP, 3.0),
    "readings and constant, halfway": mean_of(reading(WARM_UP, 1.0), constant),
    "readings and constant, by their errors on other recipes": mean_of(reading(WARM_UP, 1.0), constant, weighted=True),
    "one exponent per optimizer": of_fact(lambda recipe: recipe.study.training.optimizer),
    "one exponent per schedule": of_fact(lambda recipe: recipe.study.training.schedule),
    "one exponent per norm placement": of_fact(norm_placement),
    "one exponent per weight decay": of_fact(lambda recipe: recipe.study.training.weight_decay),
    "schedule compressed to a tenth": compressed,
}


def signed_errors(name: str, recipes: Sequence[Tuned], results: Path) -> dict[str, list[float]]:
    """log10(predicted / tuned) of a candidate at the larger sizes, by recipe."""
    return candidate_errors(CANDIDATES[name], recipes, results)


def candidate_errors(candidate: Candidate, recipes: Sequence[Tuned], results: Path) -> dict[str, list[float]]:
    """The same of a candidate that has no name."""
    found = {}
    for recipe in recipes:
        others = [other for other in recipes if other.name != recipe.name]
        changes = candidate(recipe, others, results)
        if changes is not None:
            first = min(recipe.decades)
            found[recipe.name] = [
                changes[size] - (recipe.decades[size] - recipe.decades[first]) for size in sorted(changes)
            ]
    return found


def errors(name: str, recipes: Sequence[Tuned], results: Path) -> dict[str, list[float]]:
    """A candidate's errors in decades at the larger sizes, by recipe."""
    return {recipe: [*map(abs, found)] for recipe, found in signed_errors(name, recipes, results).items()}


def table(recipes: Sequence[Tuned], results: Path) -> str:
    """A row for every recipe, then the median over recipes: exponent, noise floor and the rules' median errors."""
    rules = ("copy", "constant exponent", "law")
    found = {rule: errors(rule, recipes, results) for rule in rules}
    lines = ["| recipe | exponent | floor | " + " | ".join(rules) + " |", "|---|---|---|" + "---|" * len(rules)]
    for recipe in recipes:
        medians = " | ".join(f"{median(found[rule][recipe.name]):.2f}" for rule in rules)
        lines.append(f"| {recipe.name}{recipe.note} | {recipe.exponent:+.2f} | {recipe.floor:.2f} | {medians} |")
    totals = " | ".join(f"{median(median(values) for values in found[rule].values()):.2f}" for rule in rules)
    lines.append(f"| median of {len(recipes)} | | | {totals} |")
    return "\n".join(lines) + "\n"


def candidates_table(recipes: Sequence[Tuned], results: Path) -> str:
    """Each candidate's median error by recipe, then over recipes."""
    names = [recipe.name for recipe in recipes]
    lines = ["| candidate | " + " | ".join(names) + " | median |", "|---|" + "---|" * (len(names) + 1)]
    for candidate in CANDIDATES:
        found = {name: median(values) for name, values in errors(candidate, recipes, results).items()}
        cells = [f"{found[name]:.2f}" if name in found else "-" for name in names]
        total = f"{median(found.values()):.2f}" + ("" if len(found) == len(names) else f" of {len(found)}")
        lines.append(f"| {candidate} | " + " | ".join(cells) + f" | {total} |")
    return "\n".join(lines) + "\n"


def readings_table(recipes: Sequence[Tuned], results: Path) -> str:
    """What readings predict for the largest size, in decades: at each step, and over the warm-up at three rates."""
    columns = {f"step {step}": reading((step,), 1.0) for step in (0, *WARM_UP)}
    columns |= {"warm-up": reading(WARM_UP, 1.0), "x 1/3": reading(WARM_UP, THIRD), "x 3": reading(WARM_UP, 3.0)}
    lines = ["| recipe | tuned | " + " | ".join(columns) + " |", "|---|---|" + "---|" * len(columns)]
    for recipe in recipes:
        first, largest = min(recipe.decades), max(recipe.decades)
        predicted = [predict(recipe, (), results) for predict in columns.values()]
        cells = ["-" if changes is None else f"{changes[largest]:+.2f}" for changes in predicted]
        tuned = recipe.decades[largest] - recipe.decades[first]
        lines.append(f"| {recipe.name} | {tuned:+.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


@cache
def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))
