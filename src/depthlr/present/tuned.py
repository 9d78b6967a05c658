"""A size's tuned rate as text; optima at the edge of the range of rates are bounds, and no tuned rate."""

from __future__ import annotations

from depthlr.law.numbers import rate_text
from depthlr.study.results import Results

AT_EDGE = "at edge"


def tuned_text(results: Results, size: int, none: str = "-") -> str:
    """The tuned rate, or that its optima lie at the edge, or `none` where every run diverged."""
    if size in results.tuned_rates:
        return rate_text(results.tuned_rates[size])
    return AT_EDGE if any(curve.optimum for curve in results.curves if curve.size == size) else none
