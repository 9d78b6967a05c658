"""How far carried rates have missed tuned ones: the interval of a carried rate."""

from __future__ import annotations

import math
from dataclasses import dataclass

from depthlr.trace.depth import Depth
from depthlr.transfer.measured_change import MeasuredChange

COVERAGE = 0.8  # of tuned rates lie within a stated interval
FARTHEST = 5  # doublings of depth to which this is stretched; tasks reach 2.7
NORMAL_QUANTILE = 1.28  # of a normal variable `COVERAGE` lies within so many standard deviations


@dataclass(frozen=True)
class Missed:
    """So many decades at twice the depth, growing as a power of the doublings: what `COVERAGE` of transfers miss by.

    Those of TransferBench's dev and first tasks.
    """

    decades: float
    power: float

    def within(self, source_depth: float, target_depth: float) -> float:
        return float(self.decades * doublings(source_depth, target_depth) ** self.power)


def doublings(source_depth: float, target_depth: float) -> float:
    """Of depth, up or down."""
    return abs(math.log2(target_depth) - math.log2(source_depth))


def compared(source: Depth, target: Depth) -> bool:
    """Do these models differ as TransferBench's do: in depth, and in width with it and no more?"""
    deeper = max(target.backbone, 1) / max(source.backbone, 1)  # a stem and a head alone have none
    wider = max(target.widths, default=1) / max(source.widths, default=1)
    return source.total != target.total and min(1.0, deeper) <= wider <= max(1.0, deeper)


LAW = Missed(0.26, 1.0)  # whose exponent is off
MEASURED = Missed(0.15, 0.5)
ONE_DRAW = Missed(0.26, 0.5)


def measured_within(change: MeasuredChange, source_depth: float, target_depth: float) -> float:
    """Decades either way; more where initialisations scatter more than those of the tasks."""
    if change.standard_error is None:
        return ONE_DRAW.within(source_depth, target_depth)
    scatter = NORMAL_QUANTILE * (1 - change.law_share) * change.standard_error
    return max(MEASURED.within(source_depth, target_depth), scatter)
