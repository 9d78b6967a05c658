"""Arithmetic only, without torch: rules of depth, loss curves, the weighted fit, and carried rates."""

from depthlr.law.carried_rate import CarriedRate
from depthlr.law.curve import log_grid, optimum
from depthlr.law.fit import Fit, fit_power_law
from depthlr.law.rules import LAW_EXPONENT, OPTIMIZER_FAMILIES, RULES, DepthRule, transfer_by_power

__all__ = [
    "LAW_EXPONENT",
    "OPTIMIZER_FAMILIES",
    "RULES",
    "CarriedRate",
    "DepthRule",
    "Fit",
    "fit_power_law",
    "log_grid",
    "optimum",
    "transfer_by_power",
]
