"""One size of a check: the rate that was measured there, and how far from it the rules land."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import stdev

from depthlr.energy.energy import EnergyOverSeeds
from depthlr.energy.persistent import DrawnRate, PersistentEnergy, rate_over_draws
from depthlr.law.power import transfer
from depthlr.trace.depth import Depth

LEVEL = 0.95  # of the errors' intervals
TABLE = ("size", "depth", "rate for energy 1", "sd", "law", "copy", "±")


@dataclass(frozen=True)
class Measured:
    """What was measured at one size, an entry a seed."""

    size: int
    depth: Depth
    energies: EnergyOverSeeds
    persistent: tuple[PersistentEnergy, ...]
    drawn: bool = True  # a model of its own for every seed

    @cached_property
    def found(self) -> DrawnRate:
        """The rate of persistent energy 1, over seeds."""
        return rate_over_draws(self.persistent)

    @cached_property
    def sd(self) -> float | None:
        """Decades, over seeds; one seed has none."""
        return stdev(map(math.log10, self.rates)) if self.drawn and len(self.rates) > 1 else None

    @cached_property
    def error(self) -> float | None:
        """The standard error of log10 of the rate, as the seeds alone show it; None where nothing is known of it."""
        return self.sd / math.sqrt(len(self.rates)) if self.sd else None

    @cached_property
    def rates(self) -> list[float]:
        """One a seed."""
        return [one.rate for one in self.persistent]


@dataclass(frozen=True)
class SizeCheck:
    """One size: its rate for persistent energy 1, and how far off it rules put a rate tuned at the smallest size."""

    size: int
    depth: Depth
    energies: EnergyOverSeeds
    persistent: tuple[PersistentEnergy, ...]
    rate: float  # the geometric mean over seeds
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


def against(first: Measured, row: Measured) -> SizeCheck:
    """A size against the smallest, whose rate is carried."""
    copied = first.found.decades - row.found.decades
    return SizeCheck(
        size=row.size,
        depth=row.depth,
        energies=row.energies,
        persistent=row.persistent,
        rate=row.found.rate,
        sd=row.sd,
        law_error=copied + math.log10(transfer(1.0, first.depth.total, row.depth.total)),
        copy_error=copied,
        uncertainty=0.0 if row is first else uncertainty(first.error, row.error, len(row.persistent)),
    )


def uncertainty(here: float | None, there: float | None, seeds: int) -> float:
    """Half of Student's interval for a difference, from two standard errors; infinite where one is not known."""
    if not (here and there):
        return math.inf
    from scipy.special import stdtrit  # here, because `import depthlr` must not need scipy

    return float(stdtrit(2 * (seeds - 1), (1 + LEVEL) / 2)) * math.hypot(here, there)
