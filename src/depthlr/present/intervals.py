"""The interval of a depth's tuned rate over its seeds."""

from __future__ import annotations

import math

from depthlr.law.fit import Point


def seed_interval(point: Point, spacing: float | None = None, level: float = 0.95) -> tuple[float, float] | None:
    """Student's t interval of the mean of log10 rate, as rates: half a grid step at least, None for a single seed."""
    if point.sd is None:
        return None
    from scipy.special import stdtrit  # here, because `import depthlr` must not need scipy

    freedom = point.observations - 1
    half = float(stdtrit(freedom, (1 + level) / 2)) * point.sd / math.sqrt(point.observations)
    half = max(half, (spacing or 0.0) / 2)
    return 10 ** max(point.log10_rate - half, -300.0), 10 ** min(point.log10_rate + half, 300.0)
