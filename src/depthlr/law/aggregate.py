"""Means of the units' energies; AM-muP takes the arithmetic one, as its appendix on the rationale argues."""

import math
from collections.abc import Callable, Iterable

from depthlr.errors import DepthlrError

Aggregator = Callable[[Iterable[float]], float]


def arithmetic(energies: Iterable[float]) -> float:
    """The mean energy: what a unit drawn at random moves, and the only mean that survives regrouping units."""
    values = _energies(energies)
    return math.fsum(value / len(values) for value in values)  # Eq. (am-mup-def): S-bar; divided first against overflow


def geometric(energies: Iterable[float]) -> float:
    """exp of the mean log energy; a large and a small unit cancel, and a unit at zero makes it zero."""
    values = _energies(energies)
    if min(values) == 0:
        return 0.0
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def harmonic(energies: Iterable[float]) -> float:
    """One over the mean inverse energy; ruled by the smallest unit, and zero if that is zero."""
    values = _energies(energies)
    least = min(values)
    if least == 0:
        return 0.0
    return least * (len(values) / math.fsum(least / value for value in values))  # least taken out against overflow


AGGREGATORS: dict[str, Aggregator] = {"arithmetic": arithmetic, "geometric": geometric, "harmonic": harmonic}


def _energies(energies: Iterable[float]) -> list[float]:
    values = [float(energy) for energy in energies]
    if not values:
        raise DepthlrError("There are no energies to average: measure at least one unit.")
    for place, value in enumerate(values):
        if not (math.isfinite(value) and value >= 0):
            raise DepthlrError(
                f"Energy {place} is {value}, but an energy is a finite mean square of at least 0: "
                "look for an overflow or NaN in that unit."
            )
    return values
