"""Layer 2: an optimizer's step direction, the update energy it causes, and how much of it persists."""

from depthlr.energy.energy import Energy, EnergyOverSeeds, Spread, UnitEnergy, update_energy, update_energy_over_seeds
from depthlr.energy.persistent import DrawnRate, PersistentEnergy, persistent_energy, rate_over_draws
from depthlr.energy.step import step_direction

__all__ = [
    "DrawnRate",
    "Energy",
    "EnergyOverSeeds",
    "PersistentEnergy",
    "Spread",
    "UnitEnergy",
    "persistent_energy",
    "rate_over_draws",
    "step_direction",
    "update_energy",
    "update_energy_over_seeds",
]
