"""The judged half, evaluated once: the rules' errors, gains with bootstrap intervals, and the interval's coverage.

The constant exponent is the one that was fitted on the design half and shipped (`results/realbench/rule.json`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from scipy.stats import binomtest

from depthlr.law.carried_rate import constant_error
from depthlr.law.rules import RULES as DEPTH_RULES
from depthlr.transfer.rules import ByDepth, Constant, Law, Rule
from experiments.realbench.scores import Tuned, gain

SHIPPED = "constant exponent"
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
        low, high = binomtest(self.recipes_held, self.recipes).proportion_ci()
        return (
            f"The 80 % interval holds {self.held} of {self.transfers} tuned rates. By recipe (the middle transfer): "
            f"{self.recipes_held} of {self.recipes}, 95 % binomial interval {low:.0%} to {high:.0%}. "
            f"Median half-width {self.half_width:.2f} decades."
        )


def coverage(recipes: Sequence[Tuned]) -> Coverage:
    """Of the shipped rule's interval."""
    held, recipes_held, widths = 0, 0, []
    for recipe in recipes:
        first, *larger = sorted(recipe.decades)
        bounds = [constant_error(recipe.depths[first], recipe.depths[size]) for size in larger]
        inside = [error <= bound for error, bound in zip(recipe.errors(RULES[SHIPPED]), bounds, strict=True)]
        held += sum(inside)
        recipes_held += 2 * sum(inside) > len(inside)
        widths += bounds
    return Coverage(held, len(widths), recipes_held, len(recipes), median(widths))


def verdict(recipes: Sequence[Tuned], rules: Mapping[str, Rule] = RULES) -> str:
    """The table of the judged half, the gains of the shipped rule, and its interval's coverage.

    Args:
        recipes: the judged half.
        rules: by their titles; they look at depths alone, and the shipped one is among them.
    """
    errors = {title: {recipe.name: recipe.errors(rule) for recipe in recipes} for title, rule in rules.items()}
    lines = ["| recipe | exponent | floor | " + " | ".join(rules) + " |", "|---|---|---|" + "---|" * len(rules)]
    for recipe in recipes:
        medians = " | ".join(f"{median(errors[rule][recipe.name]):.2f}" for rule in rules)
        lines.append(f"| {recipe.name} | {recipe.exponent:+.2f} | {recipe.floor:.2f} | {medians} |")
    totals = " | ".join(f"{median(map(median, errors[rule].values())):.2f}" for rule in rules)
    lines += [f"| median of {len(recipes)} | | | {totals} |", ""]
    for rule in rules:
        if rule != SHIPPED:
            middle, low, high = gain(errors[rule], errors[SHIPPED])
            sure = "surely" if low > 0 else "not surely"
            lines.append(f"- {SHIPPED} errs by {middle:+.2f} less than {rule} ({low:+.2f} to {high:+.2f}): {sure}.")
    return "\n".join([*lines, f"- {coverage(recipes)}"]) + "\n"
