"""Layer 5: results to look at. Plots take results and return matplotlib axes; matplotlib loads with the first one."""

from depthlr.present.energy_plots import depth_check, energy_profile
from depthlr.present.findings import verdict
from depthlr.present.landscape import loss_landscape, text_landscape
from depthlr.present.scaling import errors_by_rule, scaling, seed_floor, transfer_error
from depthlr.present.style import style

__all__ = [
    "depth_check",
    "energy_profile",
    "errors_by_rule",
    "loss_landscape",
    "scaling",
    "seed_floor",
    "style",
    "text_landscape",
    "transfer_error",
    "verdict",
]
