"""Layer 2: an optimizer's step direction, the update energy it causes, and how much of it persists."""

from depthlr.energy.energy import Energy, EnergyOverSeeds, update_energy, update_energy_over_seeds
from depthlr.energy.persistent import PersistentEnergy, persistent_energy

__all__ = [
    "Energy",
    "EnergyOverSeeds",
    "PersistentEnergy",
    "persistent_energy",
    "update_energy",
    "update_energy_over_seeds",
]
