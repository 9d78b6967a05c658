"""The update energies of one model: what one optimizer step at rate 1 does to every unit and to the readout."""

from __future__ import annotations

from dataclasses import dataclass

from depthlr.errors import DepthlrError
from depthlr.law.aggregate import AGGREGATORS
from depthlr.law.html import html_table
from depthlr.trace.units import Unit


@dataclass(frozen=True)
class UnitEnergy:
    """Energy of one unit: mean square change of its pre-activation in one step at rate 1."""

    unit: Unit
    energy: float  # S_l(1), Eq. 5; quadratic in the rate
    mean_square: float  # of the pre-activation itself

    @property
    def relative(self) -> float:
        """Energy in units of the pre-activation's own mean square."""
        return self.energy / self.mean_square if self.mean_square > 0 else float("inf")


@dataclass(frozen=True)
class Energy:
    """Energies of all units, and of the network's output."""

    units: tuple[UnitEnergy, ...]
    readout: float
    readout_mean_square: float
    loss: float

    @property
    def hidden(self) -> tuple[UnitEnergy, ...]:
        """The units over which energies are averaged: all but the head, which the readout stands for."""
        return tuple(u for u in self.units if u.unit.role != "head") or self.units

    @property
    def mean(self) -> float:
        """Mean energy, S-bar(1) (Eq. 6)."""
        return self.aggregate()

    def aggregate(self, how: str = "arithmetic", *, relative: bool = False) -> float:
        """Energy of the typical unit: arithmetic (the paper's), geometric or harmonic mean."""
        if how not in AGGREGATORS:
            raise DepthlrError(f"unknown aggregator {how!r}: known are {', '.join(AGGREGATORS)}.")
        return AGGREGATORS[how]([u.relative if relative else u.energy for u in self.hidden])

    @property
    def rate(self) -> float:
        """The AM-muP rate: mean energy 1. S-bar(rate) = rate^2 S-bar(1) = 1."""
        if self.mean <= 0:
            raise DepthlrError("the step moves no unit before the head, so no rate gives a mean energy of 1.")
        return float(self.mean**-0.5)

    def __str__(self) -> str:
        rows = [
            f"{i:>4}  {u.unit.kind:<8}  {u.energy:>10.3e}  {u.unit.branch or u.unit.path}"
            for i, u in enumerate(self.units, 1)
        ]
        rate = f"mean energy 1 at rate {self.rate:.3e}" if self.mean > 0 else "no unit before the head moves"
        top = f"mean energy {self.mean:.3e}, readout energy {self.readout:.3e}; {rate}"
        return "\n".join([top, *rows])

    def _repr_html_(self) -> str:
        rows = [(i, u.unit.kind, f"{u.energy:.3e}", u.unit.branch or u.unit.path) for i, u in enumerate(self.units, 1)]
        return html_table(str(self).partition("\n")[0], ("unit", "kind", "energy at rate 1", "last weight"), rows)
