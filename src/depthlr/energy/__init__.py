"""Layer 2: an optimizer's step direction, and the update energy it causes."""

from depthlr.energy.energy import Energy, UnitEnergy
from depthlr.energy.measure import update_energy
from depthlr.energy.seeds import EnergyOverSeeds, Spread, update_energy_over_seeds
from depthlr.energy.step import OPTIMIZERS, step_direction

__all__ = [
    "OPTIMIZERS",
    "Energy",
    "EnergyOverSeeds",
    "Spread",
    "UnitEnergy",
    "step_direction",
    "update_energy",
    "update_energy_over_seeds",
]
