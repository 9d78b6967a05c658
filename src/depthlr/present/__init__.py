"""Layer 4: results to look at. Plots take results and return matplotlib axes; matplotlib loads with the first one."""

from depthlr.law.numbers import rate_text, slope_text
from depthlr.present.depth_check import DepthCheck, check_of, depth_check
from depthlr.present.energy_profile import energy_profile
from depthlr.present.intervals import seed_interval
from depthlr.present.landscape import loss_landscape
from depthlr.present.optima import errors_by_rule, optima_by_depth, predictions, seed_floor
from depthlr.present.scaling import scaling
from depthlr.present.style import style
from depthlr.present.terminal import text_landscape
from depthlr.present.transfer_error import transfer_error
from depthlr.present.verdict import Judgement, judged, verdict

__all__ = [
    "DepthCheck",
    "Judgement",
    "check_of",
    "depth_check",
    "energy_profile",
    "errors_by_rule",
    "judged",
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
