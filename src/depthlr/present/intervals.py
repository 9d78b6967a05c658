"""The interval of a depth's tuned rate over its seeds, and the confidence band of the line through all depths.

A line's error at log10 depth x is that of its height at the weighted mean of x and that of its slope, which are
independent: half^2 = half_slope^2 ((x - centre)^2 + spread^2), with spread the weighted deviation of x. So the slope's
own interval, which the fit made from seeds or scatter, sets the scale, and only the weights' ratios are needed here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from depthlr.law.fit import Fit, Point

Array = NDArray[np.float64]
POOLING = 2.0  # as fit_power_law weighs


def seed_interval(point: Point, spacing: float | None = None, level: float = 0.95) -> tuple[float, float] | None:
    """Student's t interval of the mean of log10 rate, as rates: half a grid step at least, None for a single seed."""
    if point.sd is None:
        return None
    from scipy.special import stdtrit  # here, because `import depthlr` must not need scipy

    freedom = point.observations - 1
    half = float(stdtrit(freedom, (1 + level) / 2)) * point.sd / math.sqrt(point.observations)
    half = max(half, (spacing or 0.0) / 2)
    return 10 ** max(point.log10_rate - half, -300.0), 10 ** min(point.log10_rate + half, 300.0)


def weights(fit: Fit, spacing: float | None = None) -> Array:
    """The weight of each point in the line, up to a factor: as `fit_power_law` with its own pooling weighed it."""
    freedom = np.array([point.observations - 1 for point in fit.points], dtype=np.float64)
    own = np.array([(point.sd or 0.0) ** 2 for point in fit.points])
    pooled = float(freedom @ own) / max(1.0, float(freedom.sum()))
    variances = np.maximum((POOLING * pooled + freedom * own) / (POOLING + freedom) / (freedom + 1), _floor(spacing))
    return 1 / variances if variances.max() > 0 else np.ones_like(variances)


def centre(fit: Fit, spacing: float | None = None) -> tuple[float, float]:
    """Weighted mean and deviation of log10 depth."""
    x, w = np.log10([point.depth for point in fit.points]), weights(fit, spacing)
    mean = float(np.average(x, weights=w))
    return mean, math.sqrt(float(np.average((x - mean) ** 2, weights=w)))


def band(fit: Fit, depths: Sequence[float], spacing: float | None = None) -> tuple[Array, Array] | None:
    """Lowest and highest rate of the line at each depth, by the fit's level; None if its interval is not known."""
    half_slope = (fit.interval[1] - fit.interval[0]) / 2
    if not math.isfinite(half_slope):
        return None
    mean, spread = centre(fit, spacing)
    x = np.log10(np.asarray(depths, dtype=np.float64))
    half = half_slope * np.hypot(x - mean, spread)
    line = fit.intercept + fit.slope * x
    return 10 ** np.clip(line - half, -300, 300), 10 ** np.clip(line + half, -300, 300)


def _floor(spacing: float | None) -> float:
    return 0.0 if spacing is None else spacing**2 / 12
