"""The optimum of one curve: the rate that minimises the loss, and whether the range of rates cut it off."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from depthlr.errors import DepthlrError
from depthlr.law.domain import positive

Edge = Literal["low", "high"]


@dataclass(frozen=True)
class Optimum:
    """A curve's minimiser; with an `edge` the true one may lie beyond the range, so the rate is only a bound."""

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
    """The rate of the least loss, the smaller rate of equals; None if every run diverged (infinite loss).

    `bounds` are the ends of the range that was searched, where it reaches beyond the rates that were run.
    """
    if len(rates) != len(losses) or not rates:
        raise DepthlrError(
            f"A curve needs a loss for each rate, but there are {len(rates)} rates and {len(losses)} losses."
        )
    for rate, loss in zip(rates, losses, strict=True):
        positive(rate, "A curve's rate")
        if math.isnan(loss) or loss == -math.inf:
            raise DepthlrError(f"The loss at rate {rate:g} is {loss}: write a diverged run as infinity.")
    low, high = bounds or (min(rates), max(rates))
    index = min(range(len(rates)), key=lambda i: (losses[i], rates[i]))
    if losses[index] == math.inf:
        return None
    edge: Edge | None = "low" if rates[index] <= low else "high" if rates[index] >= high else None
    return Optimum(float(rates[index]), float(losses[index]), index, edge)
