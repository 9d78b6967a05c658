"""PathSum (Chen 2024): rate = c * (sum over input-output paths p of L_p^3)^(-1/2), L_p = weighted units on path p.

A stack of K residual blocks has 2^K paths, so everything here is kept as a logarithm and no path is ever enumerated.
"""

import math
from typing import NamedTuple

from depthlr.errors import DepthlrError
from depthlr.law.domain import carried, positive, whole


class UnitCounts(NamedTuple):
    """How many plain units (on every path) and residual units (each on half of the paths) a stack has."""

    plain: int
    residual: int


_LOG2 = math.log(2.0)


def log_pathsum(*, plain: int, residual: int) -> float:
    """log of sum_k C(K, k) (k + m)^3 for a stack of m plain and K residual units, each residual branch one unit."""
    m = whole(plain, "The number of plain units")
    k = whole(residual, "The number of residual units")
    if m + k == 0:
        raise DepthlrError("PathSum needs at least one weighted unit: give a plain or a residual count above 0.")
    # 2^K E[(X + m)^3] with X ~ Binomial(K, 1/2): E X = K/2, E X^2 = K(K+1)/4, E X^3 = K^2(K+3)/8; exact in integers.
    eightfold = k * k * (k + 3) + 6 * m * k * (k + 1) + 12 * m * m * k + 8 * m**3
    return k * _LOG2 + math.log(eightfold / 8)


def pathsum_transfer(
    rate: float, *, source: UnitCounts | tuple[int, int], target: UnitCounts | tuple[int, int]
) -> float:
    """The rate for the target's (plain, residual) counts from the rate tuned at the source's.

    On residual stacks without branch scaling the rate falls exponentially (2^K paths), not as a power of the depth.
    """
    tuned = positive(rate, "The rate")
    here, there = UnitCounts(*source), UnitCounts(*target)
    change = log_pathsum(**there._asdict()) - log_pathsum(**here._asdict())
    try:
        moved = tuned * math.exp(-change / 2)  # Chen 2024: rate ~ (sum_p L_p^3)^(-1/2)
    except OverflowError:
        moved = math.inf
    return carried(moved, here, there)
