"""Layer 5: results to look at. Plots take results and return matplotlib axes; matplotlib loads with the first one."""

from depthlr.formatting import rate_text
from depthlr.law.fit import slope_text
from depthlr.present.energy_plots import DepthCheck, check_of, depth_check, energy_profile
from depthlr.present.findings import Judgement, judge_slope, seed_interval, verdict
from depthlr.present.landscape import loss_landscape
from depthlr.present.scaling import scaling
from depthlr.present.style import style
from depthlr.present.terminal import text_landscape
from depthlr.present.transfer_error import errors_by_rule, optima_by_depth, predictions, seed_floor, transfer_error

__all__ = [
    "DepthCheck",
    "Judgement",
    "check_of",
    "depth_check",
    "energy_profile",
    "errors_by_rule",
    "judge_slope",
    "loss_landscape",
    "optima_by_depth",
    "predictions",
    "rate_text",
    "scaling",
    "seed_floor",
    "seed_interval",
    "slope_text",
    "style",
    "text_landscape",
    "transfer_error",
    "verdict",
]
