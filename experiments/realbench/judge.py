"""The judged half, evaluated once: the rules' errors, gains with bootstrap intervals, and the interval's coverage.

The constant exponent is the one that was fitted on the design half and shipped (`results/realbench/rule.json`).
`measured` is the rule of the first release, from the initializations that the table `measured/` holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from depthlr.energy.persistent import DrawnRate
from depthlr.law.carried_rate import COVERAGE, constant_error
from depthlr.law.rules import RULES as DEPTH_RULES
from depthlr.transfer.measured import Measured, MeasuredChange
from depthlr.transfer.rules import ByDepth, Constant, Law, Rule
from experiments.realbench.kept import is_finished
from experiments.realbench.measured import MEASURED
from experiments.realbench.scores import Tuned, gain

SHIPPED, RELEASED = "constant exponent", "measured"
RULES: dict[str, Rule] = {"copy": ByDepth(DEPTH_RULES["copy"]), SHIPPED: Constant(), "law": Law()}


@dataclass(frozen=True)
class Coverage:
    """How often the 80 % interval held the tuned rate.

    Args:
        held: transfers whose interval held the tuned rate.
        transfers: all of them.
        recipes_held: recipes whose median transfer was held; their number has a binomial interval.
        recipes: all of them.
        half_width: the median over transfers, in decades.
    """

    held: int
    transfers: int
    recipes_held: int
    recipes: int
    half_width: float

    def __str__(self) -> str:
        from scipy.stats import binomtest  # here, because a machine that only trains needs no scipy

        low, high = binomtest(self.recipes_held, self.recipes).proportion_ci()
        agrees = "contains" if low <= COVERAGE <= high else "does not contain"
        return (
            f"The 80 % interval contains {self.held} of {self.transfers} tuned rates. By recipe (the middle transfer): "
            f"{self.recipes_held} of {self.recipes}, 95 % binomial interval {low:.0%} to {high:.0%}, "
            f"which {agrees} 80 %. Median half-width {self.half_width:.2f} decades."
        )


def coverage(recipes: Sequence[Tuned]) -> Coverage:
    """Of the shipped rule's interval."""
    return _held(
        recipes,
        {recipe.name: recipe.errors(RULES[SHIPPED]) for recipe in recipes},
        {recipe.name: [constant_error(*ends) for ends in transfers(recipe)] for recipe in recipes},
    )


def transfers(recipe: Tuned) -> list[tuple[int, int]]:
    """The effective depths of the smallest size and of each larger one."""
    first, *larger = sorted(recipe.decades)
    return [(recipe.depths[first], recipe.depths[size]) for size in larger]


def _held(
    recipes: Sequence[Tuned], errors: Mapping[str, Sequence[float]], bounds: Mapping[str, Sequence[float]]
) -> Coverage:
    held, recipes_held = 0, 0
    widths: list[float] = []
    for recipe in recipes:
        inside = [error <= bound for error, bound in zip(errors[recipe.name], bounds[recipe.name], strict=True)]
        held += sum(inside)
        recipes_held += 2 * sum(inside) > len(inside)
        widths += bounds[recipe.name]
    return Coverage(held, len(widths), recipes_held, len(recipes), median(widths))


def measured_changes(recipe: Tuned, results: Path) -> dict[int, MeasuredChange]:
    """What the rule `measured` says of each larger size; nothing if it refused one of the models."""
    drawn = {}
    for row in MEASURED.read(results / RELEASED / f"{recipe.name}.csv").values():
        if not row["decades"]:
            return {}
        error = float(row["standard_error"]) if row["standard_error"] else None
        drawn[int(row["size"])] = DrawnRate(float(row["decades"]), error, row["noisy"] == "True")
    first, *larger = sorted(recipe.decades)
    depths = recipe.depths
    return {
        size: Measured.change(drawn[first], drawn[size], depths[first], depths[size], one_width=True) for size in larger
    }


def measured_errors(recipe: Tuned, results: Path) -> list[float]:
    """Its errors in decades."""
    first = min(recipe.decades)
    return [
        abs(recipe.decades[first] + change.decades - recipe.decades[size])
        for size, change in measured_changes(recipe, results).items()
    ]


def measured_coverage(recipes: Sequence[Tuned], results: Path) -> Coverage:
    """Of its interval."""
    bounds = {}
    for recipe in recipes:
        changes = measured_changes(recipe, results).values()
        bounds[recipe.name] = [
            change.error_bound(*ends) for change, ends in zip(changes, transfers(recipe), strict=True)
        ]
    return _held(recipes, {recipe.name: measured_errors(recipe, results) for recipe in recipes}, bounds)


def verdict(recipes: Sequence[Tuned], rules: Mapping[str, Rule] = RULES, *, results: Path | None = None) -> str:
    """The table of the judged half, the gains of the shipped rule, and its interval's coverage.

    Args:
        recipes: the judged half.
        rules: by their titles; they look at depths alone, and the shipped one is among them.
        results: where tables lie; `measured` is judged as well if all of these recipes were measured.
    """
    errors = {title: {recipe.name: recipe.errors(rule) for recipe in recipes} for title, rule in rules.items()}
    measured = results is not None and all(is_finished(results / RELEASED / f"{recipe.name}.csv") for recipe in recipes)
    if measured and results is not None:
        answers = {recipe.name: measured_errors(recipe, results) for recipe in recipes}
        if any(answers.values()):
            errors[RELEASED] = {name: found for name, found in answers.items() if found}
    lines = ["| recipe | exponent | floor | " + " | ".join(errors) + " |", "|---|---|---|" + "---|" * len(errors)]
    for recipe in recipes:
        medians = " | ".join(
            f"{median(found[recipe.name]):.2f}" if recipe.name in found else "-" for found in errors.values()
        )
        lines.append(f"| {recipe.name}{recipe.note} | {recipe.exponent:+.2f} | {recipe.floor:.2f} | {medians} |")
    totals = " | ".join(
        f"{median(map(median, found.values())):.2f}" + ("" if len(found) == len(recipes) else f" of {len(found)}")
        for found in errors.values()
    )
    floors = [recipe.floor for recipe in recipes if math.isfinite(recipe.floor)]
    floor = f"{median(floors):.2f}" if floors else ""
    lines += [f"| median of {len(recipes)} | | {floor} | {totals} |", ""]
    for rule in errors:
        if rule != SHIPPED:
            middle, low, high = gain(errors[rule], errors[SHIPPED])
            sure = "surely" if low > 0 else "not surely"
            of = "" if len(errors[rule]) == len(recipes) else f", the {len(errors[rule])} recipes that it answers"
            lines.append(f"- {SHIPPED} errs by {middle:+.2f} less than {rule} ({low:+.2f} to {high:+.2f}{of}): {sure}.")
    lines.append(f"- {SHIPPED}: {coverage(recipes)}")
    if RELEASED in errors and results is not None:
        answered = [recipe for recipe in recipes if recipe.name in errors[RELEASED]]
        lines.append(f"- {RELEASED}: {measured_coverage(answered, results)}")
    elif measured:
        lines.append(f"- {RELEASED}: it refuses a model of every recipe.")
    return "\n".join(lines) + "\n"
