"""Layer 1: a model's run as a graph, what counts as a unit, effective depth."""

from depthlr.trace.depth import Depth, effective_depth
from depthlr.trace.units import Unit

__all__ = ["Depth", "Unit", "effective_depth"]
