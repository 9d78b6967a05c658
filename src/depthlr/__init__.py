"""Tune a shallow model, get the learning rate of the deep one."""

from depthlr.energy import (
    Energy,
    EnergyOverSeeds,
    PersistentEnergy,
    persistent_energy,
    update_energy,
    update_energy_over_seeds,
)
from depthlr.errors import DepthlrError
from depthlr.init import gating_factor, init_
from depthlr.law import Fit, fit_power_law
from depthlr.trace import Depth, effective_depth
from depthlr.transfer import (
    CarriedRate,
    SuggestedRate,
    TransferCheck,
    check_transfer,
    param_groups,
    suggest_rate,
    transfer_rate,
)
from depthlr.version import VERSION

__version__ = VERSION

__all__ = [
    "CarriedRate",
    "Depth",
    "DepthlrError",
    "Energy",
    "EnergyOverSeeds",
    "Fit",
    "PersistentEnergy",
    "SuggestedRate",
    "TransferCheck",
    "check_transfer",
    "effective_depth",
    "fit_power_law",
    "gating_factor",
    "init_",
    "param_groups",
    "persistent_energy",
    "suggest_rate",
    "transfer_rate",
    "update_energy",
    "update_energy_over_seeds",
]
