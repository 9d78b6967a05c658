"""How far a measured rate may miss: the interval of a carried rate."""

from __future__ import annotations

from depthlr.law.missed import MEASURED, NORMAL_QUANTILE, ONE_DRAW
from depthlr.trace.depth import Depth
from depthlr.transfer.measured_change import MeasuredChange


def compared(source: Depth, target: Depth) -> bool:
    """Do these models differ as TransferBench's do: in depth, and in width with it and no more?"""
    deeper = max(target.backbone, 1) / max(source.backbone, 1)  # a stem and a head alone have none
    wider = max(target.widths, default=1) / max(source.widths, default=1)
    return source.total != target.total and min(1.0, deeper) <= wider <= max(1.0, deeper)


def measured_within(change: MeasuredChange, source_depth: float, target_depth: float) -> float:
    """Decades either way; more where initialisations scatter more than those of the tasks."""
    if change.standard_error is None:
        return ONE_DRAW.within(source_depth, target_depth)
    scatter = NORMAL_QUANTILE * (1 - change.law_share) * change.standard_error
    return max(MEASURED.within(source_depth, target_depth), scatter)
