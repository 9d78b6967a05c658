"""Layer 2: the gating factor, and initializations under which depth is stable."""

from depthlr.init.gating import gating_factor
from depthlr.init.plan import ParameterInit, apply_plan, init_, init_plan

__all__ = ["ParameterInit", "apply_plan", "gating_factor", "init_", "init_plan"]
