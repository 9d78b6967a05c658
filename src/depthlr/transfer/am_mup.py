"""The rule `AmMup`: keep the mean energy of the first step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from depthlr.energy.batches import read_batches
from depthlr.energy.energy import ENERGY_BATCHES, rate_of, update_energy
from depthlr.energy.initializations import model_of
from depthlr.energy.progress import measuring
from depthlr.law.carried_rate import AS_IT_IS, CarriedRate
from depthlr.transfer.measured import check_measuring, recipe_with_batches
from depthlr.transfer.optimizer import rates_of, with_recipe_notes
from depthlr.transfer.recipe import Energies, Recipe

AM_MUP = (
    "The best rate keeps the mean energy of the first step what it was at the source (AM-muP). Both models must be "
    "initialized as they will be trained; nothing is assumed about how energy depends on depth or width."
)


@dataclass(frozen=True)
class AmMup:
    """The ratio of mean update energies of the first step (AM-muP).

    Args:
        aggregate: The mean over the units: arithmetic, geometric or harmonic.
        seed: Seeds what models and batches draw.
    """

    aggregate: str = "arithmetic"
    seed: int = 0

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        """Carry the rate by the mean energies of both models. Arguments are those of `Rule.carry`.

        Models are measured on the source's batches, or on the target's if the source has none. Stored energies are
        used as they are.
        """
        given = recipe_with_batches(source, target)
        builds = [_model_or_energies(recipe.build) for recipe in (source, target)]
        models = [build for build in builds if not isinstance(build, Energies)]
        batches = []
        if models:
            check_measuring("am-mup", given, models)
            batches = read_batches(given.batches, None, ENERGY_BATCHES, self.seed)
        with measuring(len(batches) * len(models)):
            energies = [
                self._energy(build, recipe, batches, given)
                for build, recipe in zip(builds, (source, target), strict=True)
            ]
        means = [energy.aggregate(self.aggregate) for energy in energies]
        factor = rate_of(means[1]) / rate_of(means[0])  # rate'^2 S'(1) = rate^2 S(1)
        depths = len(energies[0].units), len(energies[1].units)
        carried = CarriedRate(rate * factor, "am-mup", *depths, factor, AM_MUP, initialization=AS_IT_IS)
        rates = []
        for recipe, build in zip((source, target), builds, strict=True):
            rates.append(rates_of(recipe, None if isinstance(build, Energies) else build))
        return with_recipe_notes(carried, source, target, rates)

    def _energy(self, build: Any, recipe: Recipe, batches: list[Any], given: Recipe) -> Energies:
        if isinstance(build, Energies):
            return build
        return update_energy(build, batches, given.loss_fn, given.optimizer, seed=self.seed, units=recipe.units)


def _model_or_energies(build: Any) -> Any:
    """What a recipe holds, with the model built where it holds a function."""
    return model_of(build) if callable(build) else build
