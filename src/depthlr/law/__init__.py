"""Arithmetic only: the power law, the peers' rules, grids, the weighted fit, and the theory's closed forms."""

from depthlr.law.aggregate import AGGREGATORS, Aggregator, arithmetic, geometric, harmonic
from depthlr.law.boundary import boundary_fraction, kernel_offsets
from depthlr.law.carried_rate import CarriedRate, carried_over_depth
from depthlr.law.fit import Fit, Point, fit_power_law
from depthlr.law.grid import grid_spacing, log_grid
from depthlr.law.leaning import EXPONENT_SPREAD, LEAST_SPREAD, law_share
from depthlr.law.optimum import Optimum, optimum
from depthlr.law.overlap import cross_entropy_gradient_norm2, overlap_sum, residual_growth, residual_growth_bound
from depthlr.law.pathsum import UnitCounts, log_pathsum, log_pathsum_graph, pathsum_transfer
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
    "boundary_fraction",
    "carried_over_depth",
    "carry",
    "cross_entropy_gradient_norm2",
    "fit_power_law",
    "geometric",
    "grid_spacing",
    "harmonic",
    "kernel_offsets",
    "law_share",
    "log_grid",
    "log_pathsum",
    "log_pathsum_graph",
    "optimum",
    "overlap_sum",
    "pathsum_transfer",
    "residual_growth",
    "residual_growth_bound",
    "rule_named",
    "transfer",
]
