"""Layer 5: results to look at. Plots take results and return matplotlib axes; matplotlib loads with the first one."""

from depthlr.formatting import rate_text
from depthlr.law.fit import slope_text
from depthlr.present.energy_plots import depth_check, depth_fits, energy_profile
from depthlr.present.findings import Judgement, judge_slope, seed_interval, verdict
from depthlr.present.landscape import loss_landscape
from depthlr.present.scaling import scaling
from depthlr.present.style import style
from depthlr.present.terminal import text_landscape
from depthlr.present.transfer_error import errors_by_rule, predictions, seed_floor, transfer_error, tuned_by_depth

__all__ = [
    "Judgement",
    "depth_check",
    "depth_fits",
    "energy_profile",
    "errors_by_rule",
    "judge_slope",
    "loss_landscape",
    "predictions",
    "rate_text",
    "scaling",
    "seed_floor",
    "seed_interval",
    "slope_text",
    "style",
    "text_landscape",
    "transfer_error",
    "tuned_by_depth",
    "verdict",
]
