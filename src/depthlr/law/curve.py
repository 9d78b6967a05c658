"""Loss curves over rates: the grid of rates, the optimum of a curve, and means over units and seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from depthlr import check
from depthlr.errors import DepthlrError

Edge = Literal["low", "high"]
Aggregator = Callable[[Iterable[float]], float]


@dataclass(frozen=True)
class Optimum:
    """The minimum of a curve. With an `edge` the true minimum may lie outside the range: the rate is only a bound."""

    rate: float
    loss: float
    index: int  # into the rates as they were given
    edge: Edge | None

    @property
    def at_edge(self) -> bool:
        return self.edge is not None


def optimum(
    rates: Sequence[float], losses: Sequence[float], *, bounds: tuple[float, float] | None = None
) -> Optimum | None:
    """The rate of the least loss; of equal losses, that of the smallest rate.

    Args:
        rates: The rates of a curve.
        losses: The loss at each rate. Infinity means that the run diverged.
        bounds: The ends of the searched range, if it reaches beyond `rates`.

    Returns:
        The optimum, or None if every run diverged.

    Raises:
        DepthlrError: Rates and losses do not match, or one of them is not valid.
    """
    if len(rates) != len(losses) or not rates:
        raise DepthlrError(
            f"A curve needs a loss for each rate, but there are {len(rates)} rates and {len(losses)} losses."
        )
    for rate, loss in zip(rates, losses, strict=True):
        check.positive("A curve's rate", rate)
        if math.isnan(loss) or loss == -math.inf:
            raise DepthlrError(f"The loss at rate {rate:g} is {loss}: write a diverged run as infinity.")
    low, high = bounds or (min(rates), max(rates))
    index = min(range(len(rates)), key=lambda i: (losses[i], rates[i]))
    if losses[index] == math.inf:
        return None
    edge: Edge | None = None
    if rates[index] <= low:
        edge = "low"
    elif rates[index] >= high:
        edge = "high"
    return Optimum(float(rates[index]), float(losses[index]), index, edge)


def log_grid(low: float, high: float, points: int) -> list[float]:
    """Rates that are evenly spaced in the logarithm.

    Args:
        low: The first rate, included exactly.
        high: The last rate, included exactly.
        points: The number of rates.
    """
    first, last = check.positive("The grid's lowest rate", low), check.positive("The grid's highest rate", high)
    count = check.count("The grid's number of points", points, least=2)
    if first >= last:
        raise DepthlrError(f"The grid's lowest rate {first:g} must be below its highest {last:g}: swap or widen them.")
    inner = 10 ** np.linspace(math.log10(first), math.log10(last), count)[1:-1]
    return [first, *(float(rate) for rate in inner), last]


def arithmetic(energies: Iterable[float]) -> float:
    """The arithmetic mean. It is the only mean that does not change when units are regrouped.

    Args:
        energies: Numbers of at least 0.
    """
    values = _energies(energies)
    return math.fsum(value / len(values) for value in values)  # Eq. (am-mup-def): S-bar; divided first against overflow


def geometric(energies: Iterable[float]) -> float:
    """The geometric mean. It is 0 if one energy is 0.

    Args:
        energies: Numbers of at least 0.
    """
    values = _energies(energies)
    if min(values) == 0:
        return 0.0
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def harmonic(energies: Iterable[float]) -> float:
    """The harmonic mean. It is 0 if one energy is 0.

    Args:
        energies: Numbers of at least 0.
    """
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
    for index, value in enumerate(values):
        if not (math.isfinite(value) and value >= 0):
            raise DepthlrError(
                f"Energy {index} is {value}, but an energy is a finite mean square of at least 0: "
                "look for an overflow or NaN in that unit."
            )
    return values
