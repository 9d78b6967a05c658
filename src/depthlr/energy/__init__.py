"""Layer 2: an optimizer's step direction, the update energy it causes, and how much of it persists."""

from depthlr.energy.drawn_rate import DrawnRate, rate_over_draws
from depthlr.energy.energy import Energy, UnitEnergy
from depthlr.energy.measure import update_energy
from depthlr.energy.persistent import PersistentEnergy, persistent_energy, persistent_energy_over_seeds
from depthlr.energy.seeds import EnergyOverSeeds, Spread, update_energy_over_seeds
from depthlr.energy.step import OPTIMIZERS, step_direction

__all__ = [
    "OPTIMIZERS",
    "DrawnRate",
    "Energy",
    "EnergyOverSeeds",
    "PersistentEnergy",
    "Spread",
    "UnitEnergy",
    "persistent_energy",
    "persistent_energy_over_seeds",
    "rate_over_draws",
    "step_direction",
    "update_energy",
    "update_energy_over_seeds",
]
