"""A measured slope against a stated one, in the page's words."""

from __future__ import annotations

from depthlr.law.fit import Fit
from depthlr.present.findings import Judgement, judge_slope

HOLDS, SHALLOWER, STEEPER, UNDECIDED = "contains it", "shallower", "steeper", "undecided"
WORDS = {  # a rate that falls more slowly with depth has the shallower slope
    Judgement.holds: HOLDS,
    Judgement.slower: SHALLOWER,
    Judgement.faster: STEEPER,
    Judgement.undecided: UNDECIDED,
}


def against(fit: Fit | None, stated: float) -> str:
    """One of four words."""
    return UNDECIDED if fit is None or not fit.bounded else WORDS[judge_slope(fit, stated)]
