"""Grids of rates, evenly spaced in the logarithm."""

import math
from collections.abc import Iterable

import numpy as np

from depthlr.errors import DepthlrError
from depthlr.law.domain import positive, whole

_EVEN = 0.01  # steps may differ by this share of a step, so a grid printed to four digits still counts as even


def log_grid(low: float, high: float, points: int) -> list[float]:
    """Rates from low to high, both included exactly, evenly spaced in the logarithm."""
    first, last = positive(low, "The grid's lowest rate"), positive(high, "The grid's highest rate")
    count = whole(points, "The grid's number of points", least=2)
    if first >= last:
        raise DepthlrError(f"The grid's lowest rate {first:g} must be below its highest {last:g}: swap or widen them.")
    inner = 10 ** np.linspace(math.log10(first), math.log10(last), count)[1:-1]
    return [first, *(float(rate) for rate in inner), last]


def grid_spacing(rates: Iterable[float]) -> float:
    """The step of a grid of rates in decades, in whatever order they come."""
    logs = np.sort([math.log10(positive(rate, "A grid's rate")) for rate in rates])
    if logs.size < 2:
        raise DepthlrError(f"A spacing needs at least two rates, not {logs.size}: pass the whole grid.")
    steps = np.diff(logs)
    spacing = float(logs[-1] - logs[0]) / (logs.size - 1)
    if spacing == 0 or np.abs(steps - spacing).max() > _EVEN * spacing:
        raise DepthlrError(
            f"The rates are not evenly spaced in the logarithm (steps of {steps.min():.4g} to {steps.max():.4g} "
            "decades): make them with log_grid."
        )
    return spacing
