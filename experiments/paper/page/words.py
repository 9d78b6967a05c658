"""How the results page writes numbers, slopes, and a measured slope against a stated one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from depthlr.formatting import MINUS, rate_text, signed
from depthlr.law.fit import Fit
from depthlr.present.findings import Judgement, judge_slope

NOTHING = "–"
NOT_YET = "not yet measured"
HOLDS, SHALLOWER, STEEPER, UNDECIDED = "contains it", "shallower", "steeper", "undecided"
JUDGED = {  # a rate that falls more slowly with depth has the shallower slope
    Judgement.holds: HOLDS,
    Judgement.slower: SHALLOWER,
    Judgement.faster: STEEPER,
    Judgement.undecided: UNDECIDED,
}


def slope(fit: Fit | None) -> str:
    """`−1.30 (−1.50 to −1.10)`."""
    if fit is None:
        return NOTHING
    low, high = fit.interval
    span = f"{signed(low)} to {signed(high)}" if math.isfinite(high - low) else "no interval"
    return f"{signed(fit.slope)} ({span})"


def r2(fit: Fit | None) -> str:
    return NOTHING if fit is None or fit.r2 is None else signed(fit.r2)


def exact(value: float, digits: int = 3) -> str:
    """As the paper prints it, with a real minus sign."""
    return f"{value:.{digits}f}".replace("-", MINUS)


def rate(value: float | None) -> str:
    return NOTHING if value is None else rate_text(value)


def decades(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def loss(values: Sequence[float]) -> str:
    """The mean over seeds, of which some may have diverged."""
    lost = sum(not math.isfinite(value) for value in values)
    if lost:
        return f"{lost} of {len(values)} diverged"
    return f"{math.fsum(values) / len(values):.3f}" if values else NOTHING


def seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def against(fit: Fit | None, stated: float) -> str:
    """One of four words."""
    return UNDECIDED if fit is None or not fit.bounded else JUDGED[judge_slope(fit, stated)]
