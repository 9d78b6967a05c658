"""The rule `constant`: one exponent for every recipe, fitted on the design half as a random-effects mean.

Each recipe's exponent is known to a standard error, and recipes differ by more than that. The mean weighs a recipe by
1 / (its variance + the variance between recipes). The latter is estimated without weights (Hedges and Olkin 1985), for
the standard errors come from two or three seeds. A new recipe's exponent lies within the prediction interval of that
model (Higgins, Thompson and Spiegelhalter 2009).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from experiments.realbench.scores import Tuned, power

LEVEL = 0.8
DIGITS = 2


@dataclass(frozen=True)
class ConstantFit:
    """What the design half says of the exponent over effective depth, and of how far one recipe's lies from it.

    Args:
        exponent: the mean over recipes.
        spread: one standard deviation of a new recipe's exponent about it, the mean's own error included.
        noise: one standard deviation of a tuned rate, in decades; the median over recipes.
        quantile: how many standard deviations the interval reaches on each side.
        level: the interval's nominal coverage.
        recipes: how many were fitted.
    """

    exponent: float
    spread: float
    noise: float
    quantile: float
    level: float
    recipes: int

    def half_width(self, depth_ratio: float) -> float:
        """Of the interval of a carried rate, in decades; both ends of the transfer are tuned with noise."""
        return self.quantile * math.hypot(self.spread * math.log10(depth_ratio), math.sqrt(2) * self.noise)

    @property
    def digest(self) -> str:
        """A hash of the rule, to commit before the judged half is read."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def held_without(recipes: Sequence[Tuned]) -> tuple[int, int]:
    """How many transfers the interval fitted on the other recipes contains, and how many transfers there are."""
    held, transfers = 0, 0
    for recipe in recipes:
        fit = fit_constant([other for other in recipes if other.name != recipe.name])
        first, *larger = sorted(recipe.decades)
        for size, error in zip(larger, recipe.errors(power(fit.exponent)), strict=True):
            held += error <= fit.half_width(recipe.depths[size] / recipe.depths[first])
            transfers += 1
    return held, transfers


def exponent_error(recipe: Tuned) -> float:
    """The standard error of a recipe's exponent, from the noise of its tuned rates."""
    decades = np.log10([recipe.depths[size] for size in sorted(recipe.decades)])
    return recipe.standard_error / float(np.sqrt(((decades - decades.mean()) ** 2).sum()))


def fit_constant(recipes: Sequence[Tuned]) -> ConstantFit:
    """Fit the rule to recipes whose rates are tuned."""
    from scipy.stats import t as student  # here, because a machine that only trains needs no scipy

    exponents = np.array([recipe.exponent for recipe in recipes])
    variances = np.array([exponent_error(recipe) for recipe in recipes]) ** 2
    between = max(0.0, float(exponents.var(ddof=1) - variances.mean()))
    weights = 1 / (variances + between)
    mean = (weights * exponents).sum() / weights.sum()
    spread = math.sqrt(between + 1 / weights.sum())
    noise = float(np.median([recipe.standard_error for recipe in recipes]))
    quantile = float(student.ppf((1 + LEVEL) / 2, len(recipes) - 2))
    mean, spread, noise, quantile = (round(float(value), DIGITS) for value in (mean, spread, noise, quantile))
    return ConstantFit(mean, spread, noise, quantile, LEVEL, len(recipes))
