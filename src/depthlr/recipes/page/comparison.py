"""A measured slope against a stated one, by rule: does its 95 % interval hold it?"""

from __future__ import annotations

import math

from depthlr.law.fit import Fit

HOLDS, SHALLOWER, STEEPER, UNDECIDED = "interval holds it", "shallower", "steeper", "undecided"
WIDE = 1.0  # an interval longer than this holds the stated slope and much else


def against(fit: Fit | None, stated: float) -> str:
    """One of four words; a rate that falls more slowly with depth has the shallower slope."""
    if fit is None:
        return UNDECIDED
    low, high = fit.interval
    if not math.isfinite(high - low):
        return UNDECIDED
    if low <= stated <= high:
        return HOLDS if high - low <= WIDE else UNDECIDED
    return SHALLOWER if low > stated else STEEPER
