"""Update energy over initialisations: medians, means and spread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log10
from statistics import fmean, median, stdev
from typing import Any

from torch import nn

from depthlr.energy.batch import LossFn, batches_of
from depthlr.energy.draws import check_draws, draws
from depthlr.energy.energy import Energy, UnitEnergy
from depthlr.energy.measure import LIMIT, update_energy
from depthlr.energy.progress import measuring
from depthlr.errors import DepthlrError
from depthlr.law.domain import MOST_SEED, whole


@dataclass(frozen=True)
class Spread:
    """One quantity over several initialisations."""

    median: float
    mean: float
    sd_log10: float  # in decades; energies of deep plain stacks are far from normal

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        decades = [log10(v) for v in values if v > 0]
        return Spread(median(values), fmean(values), stdev(decades) if len(decades) > 1 else 0.0)


@dataclass(frozen=True)
class EnergyOverSeeds:
    """Energies of several initialisations of one model."""

    energies: tuple[Energy, ...]

    @property
    def mean_energy(self) -> Spread:
        return Spread.of([e.mean for e in self.energies])

    @property
    def readout(self) -> Spread:
        return Spread.of([e.readout for e in self.energies])

    @property
    def rate(self) -> float:
        """Rate at which the median over initialisations of the mean energy is 1."""
        if self.mean_energy.median <= 0:
            raise DepthlrError("the step moves no unit before the head, so no rate gives a mean energy of 1.")
        return float(self.mean_energy.median**-0.5)

    @property
    def units(self) -> tuple[UnitEnergy, ...]:
        """The units of one initialisation; all have the same."""
        return self.energies[0].units

    def aggregate(self, how: str = "arithmetic", *, relative: bool = False) -> float:
        """Median over initialisations of the typical unit's energy."""
        return median(e.aggregate(how, relative=relative) for e in self.energies)


def update_energy_over_seeds(
    build: Callable[[], nn.Module],
    seeds: Sequence[int],
    batches: Any,
    loss_fn: LossFn | None = None,
    optimizer: Any = "sgd",
    *,
    seed: int = 0,
    limit: int | None = None,
    **options: Any,
) -> EnergyOverSeeds:
    """`update_energy` of `build()` under each seed; `optimizer` is a factory or a name, since every model is new."""
    check_draws(seeds, optimizer)
    seed = whole(seed, "The seed", most=MOST_SEED)
    given = batches_of(batches, limit, LIMIT, seed)  # once: a loader may give others the next time
    energies = []
    with measuring(len(seeds) * len(given)):
        for place, model in enumerate(draws(build, seeds), 1):
            with measuring(0, f"initialization {place} of {len(seeds)}"):
                energies.append(update_energy(model, given, loss_fn, optimizer, seed=seed, **options))
    return EnergyOverSeeds(tuple(energies))
