"""Arithmetic only, without torch: the rules of depth, loss curves, the weighted fit, and carried rates."""

from depthlr.law.carried_rate import EXPONENT_SPREAD, LEAST_SPREAD, CarriedRate, law_share
from depthlr.law.curve import (
    AGGREGATORS,
    Aggregator,
    Optimum,
    arithmetic,
    geometric,
    grid_spacing,
    harmonic,
    log_grid,
    optimum,
)
from depthlr.law.fit import Fit, Point, fit_power_law
from depthlr.law.rules import (
    FAMILIES,
    LAW_EXPONENT,
    OPTIMIZER_FAMILIES,
    RULES,
    DepthRule,
    Family,
    UnitCounts,
    log_pathsum,
    pathsum_transfer,
    rule_named,
    transfer_by_power,
)

__all__ = [
    "AGGREGATORS",
    "EXPONENT_SPREAD",
    "FAMILIES",
    "LAW_EXPONENT",
    "LEAST_SPREAD",
    "OPTIMIZER_FAMILIES",
    "RULES",
    "Aggregator",
    "CarriedRate",
    "DepthRule",
    "Family",
    "Fit",
    "Optimum",
    "Point",
    "UnitCounts",
    "arithmetic",
    "fit_power_law",
    "geometric",
    "grid_spacing",
    "harmonic",
    "law_share",
    "log_grid",
    "log_pathsum",
    "optimum",
    "pathsum_transfer",
    "rule_named",
    "transfer_by_power",
]
