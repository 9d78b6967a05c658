"""Tune a shallow model, get the learning rate of the deep one."""

from importlib import import_module
from typing import TYPE_CHECKING

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
    "Recipe",
    "SuggestedRate",
    "TransferCheck",
    "check_transfer",
    "effective_depth",
    "fit_power_law",
    "gating_factor",
    "group_multipliers",
    "init_",
    "param_groups",
    "persistent_energy",
    "rules",
    "suggest_rate",
    "sweep_function",
    "transfer_rate",
    "update_energy",
    "update_energy_over_seeds",
]

if TYPE_CHECKING:
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
    from depthlr.law import CarriedRate, Fit, fit_power_law
    from depthlr.study import sweep_function
    from depthlr.trace import Depth, effective_depth
    from depthlr.transfer import (
        Recipe,
        SuggestedRate,
        TransferCheck,
        check_transfer,
        group_multipliers,
        param_groups,
        rules,
        suggest_rate,
        transfer_rate,
    )
else:
    # A name is imported when it is first used: importing torch takes two seconds, and arithmetic does not need it.
    _HOMES = {
        "energy": "Energy EnergyOverSeeds PersistentEnergy persistent_energy update_energy update_energy_over_seeds",
        "errors": "DepthlrError",
        "init": "gating_factor init_",
        "law": "CarriedRate Fit fit_power_law",
        "study": "sweep_function",
        "trace": "Depth effective_depth",
        "transfer": "Recipe SuggestedRate TransferCheck check_transfer group_multipliers param_groups rules "
        "suggest_rate transfer_rate",
    }
    _HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        if name in _HOME:
            value = getattr(import_module(f"depthlr.{_HOME[name]}"), name)
        elif name in _HOMES:
            value = import_module(f"depthlr.{name}")
        else:
            raise AttributeError(f"module 'depthlr' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_HOMES})
