"""Arithmetic only: the power law, the peers' rules, grids, the weighted fit."""

from depthlr.law.aggregate import AGGREGATORS, Aggregator, arithmetic, geometric, harmonic
from depthlr.law.carried_rate import CarriedRate, carried_over_depth
from depthlr.law.fit import Fit, Point, fit_power_law
from depthlr.law.grid import grid_spacing, log_grid
from depthlr.law.leaning import EXPONENT_SPREAD, LEAST_SPREAD, law_share
from depthlr.law.optimum import Optimum, optimum
from depthlr.law.pathsum import UnitCounts, log_pathsum, pathsum_transfer
from depthlr.law.power import LAW_EXPONENT, transfer
from depthlr.law.rules import FAMILIES, OPTIMIZER_FAMILIES, RULES, Family, Rule, carry, rule_named

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
    "Family",
    "Fit",
    "Optimum",
    "Point",
    "Rule",
    "UnitCounts",
    "arithmetic",
    "carried_over_depth",
    "carry",
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
    "transfer",
]
