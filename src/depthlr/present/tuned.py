"""A size's tuned rate: the geometric mean of its seeds' optima inside the range; those at its edge are bounds."""

from __future__ import annotations

from depthlr.law.aggregate import geometric
from depthlr.present.numbers import rate_text
from depthlr.study.results import Results

AT_EDGE = "at edge"


def tuned_rate(results: Results, size: int) -> float | None:
    """None where no seed has an optimum inside the range."""
    found = results.inside(size)
    return geometric(best.rate for best in found) if found else None


def tuned_text(results: Results, size: int, none: str = "-") -> str:
    """The tuned rate, or that its optima lie at the edge, or `none` where every run diverged."""
    rate = tuned_rate(results, size)
    if rate is not None:
        return rate_text(rate)
    return AT_EDGE if any(curve.optimum for curve in results.curves if curve.size == size) else none
