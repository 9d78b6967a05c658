"""The rate of persistent energy 1 over initialisations: its middle, and how well that is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from depthlr.energy.persistent import PersistentEnergy

DRAW_SCATTER = 0.1  # decades: how far rates of one model's draws scatter, the middle over TransferBench's models
UNSURE = 0.15  # decades of one standard error: about what carried rates miss by where draws agree


@dataclass(frozen=True)
class DrawnRate:
    """In log10: the mean over draws and its standard error."""

    decades: float
    standard_error: float
    noisy: bool  # is it a guess at most of the draws?

    @property
    def rate(self) -> float:
        """The geometric mean over draws."""
        return float(10**self.decades)


def rate_over_draws(found: Sequence[PersistentEnergy]) -> DrawnRate:
    """The geometric mean: energies of deep plain stacks scatter by decades, and few draws would lead another mean."""
    decades = [math.log10(one.rate) for one in found]
    middle, several = fmean(decades), len(decades)
    # As if one draw more strayed by the usual scatter: few may agree by chance, and one has no scatter of its own.
    variance = (DRAW_SCATTER**2 + sum((one - middle) ** 2 for one in decades)) / several
    return DrawnRate(middle, math.sqrt(variance / several), 2 * sum(one.noisy for one in found) > several)
