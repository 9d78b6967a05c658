"""One size of a check: its rate for mean energy 1, and how far from it the rules land."""

from __future__ import annotations

import math
from dataclasses import dataclass

from depthlr.energy.seeds import EnergyOverSeeds
from depthlr.trace.depth import Depth

LEVEL = 0.95  # of the errors' intervals
TABLE = ("size", "depth", "rate for energy 1", "sd", "law", "copy", "±")


@dataclass(frozen=True)
class SizeCheck:
    """One size: its rate for mean energy 1, and how far off it rules put a rate tuned at the smallest size."""

    size: int
    depth: Depth
    energies: EnergyOverSeeds
    rate: float  # geometric mean over seeds
    sd: float | None  # decades, over seeds; one seed has none
    law_error: float  # decades; above 0 the law carries too high a rate
    copy_error: float
    uncertainty: float  # of both errors: half a 95% interval, by the seeds' scatter; infinite where that is not known

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of a table under `TABLE`."""
        sd = "-" if self.sd is None else f"{self.sd:.2f}"
        errors = (f"{self.law_error:+.2f}", f"{self.copy_error:+.2f}", f"{self.uncertainty:.2f}")
        return f"{self.size}", f"{self.depth.total}", f"{self.rate:.3g}", sd, *errors


def uncertainty(here: float | None, there: float | None, seeds: int) -> float:
    """Half of Student's interval for a difference of means; seeds that all agree drew nothing, so they say nothing."""
    if not (here and there):
        return math.inf
    from scipy.special import stdtrit  # here, because `import depthlr` must not need scipy

    return float(stdtrit(2 * (seeds - 1), (1 + LEVEL) / 2)) * math.hypot(here, there) / math.sqrt(seeds)
