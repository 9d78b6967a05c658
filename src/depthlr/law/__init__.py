"""Arithmetic only, without torch: rules of depth, loss curves, the weighted fit, and carried rates."""

from depthlr.law.carried_rate import CarriedRate
from depthlr.law.fit import Fit, fit_power_law
from depthlr.law.rules import RULES

__all__ = ["RULES", "CarriedRate", "Fit", "fit_power_law"]
