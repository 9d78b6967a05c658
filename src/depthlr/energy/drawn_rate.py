"""The rate of persistent energy 1 over initialisations: its middle, and how well that is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from depthlr.energy.persistent import LEAST_SHARE, PersistentEnergy
from depthlr.errors import DepthlrError

DRAW_SCATTER = 0.1  # decades: how far rates of one model's draws scatter, the middle over TransferBench's models
NOISE = -0.5 * math.log10(LEAST_SHARE)  # decades by which a rate may be too low whose energy drowns in noise
UNSURE = 0.15  # decades of one standard error: about what carried rates miss by where draws agree


@dataclass(frozen=True)
class DrawnRate:
    """In log10: the mean over draws and its standard error; None of one draw, whose scatter nobody knows."""

    decades: float
    standard_error: float | None
    noisy: bool  # is it a guess at half of the draws or more?

    @property
    def rate(self) -> float:
        """The geometric mean over draws."""
        return float(10**self.decades)


def rate_over_draws(found: Sequence[PersistentEnergy]) -> DrawnRate:
    """The geometric mean: energies of deep plain stacks scatter by decades, and few draws would lead another mean."""
    if not found:
        raise DepthlrError("there is no persistent energy to take a rate from: measure one initialisation or more.")
    decades = [math.log10(one.rate) for one in found]
    middle, several = fmean(decades), len(decades)
    noisy = sum(one.noisy for one in found) / several
    # As if one draw more strayed by the usual scatter: few may agree by chance. What noise hides it hides in all alike.
    variance = (DRAW_SCATTER**2 + sum((one - middle) ** 2 for one in decades)) / several
    error = math.hypot(math.sqrt(variance / several), noisy * NOISE)
    return DrawnRate(middle, error if several > 1 else None, 2 * noisy >= 1)
