"""The rules that measure models: `Measured` keeps the persistent energy of the readout, `AmMup` the mean energy.

`Measured` averages with the law if it is unsure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from depthlr import check
from depthlr.energy.batches import batches_for_seeds, inputs_of, read_batches
from depthlr.energy.energy import ENERGY_BATCHES, rate_of, update_energy
from depthlr.energy.initializations import EVAL_MODE_NOTE, SAME_WEIGHTS_NOTE, Draws, model_of
from depthlr.energy.persistent import (
    LARGE_ERROR,
    SEEDS,
    DrawnRate,
    PersistentEnergy,
    persistent_energies,
    rate_over_draws,
    readout_size_note,
)
from depthlr.energy.progress import measuring
from depthlr.energy.step import OwnRates, check_fits_any_model, optimizers_of, own_rates
from depthlr.errors import DepthlrError
from depthlr.law.carried_rate import (
    AS_IT_IS,
    EVIDENCE,
    MEASURED_ERROR,
    NORMAL_QUANTILE,
    ONE_DRAW_ERROR,
    CarriedRate,
    finite_rate,
    law_share,
)
from depthlr.law.rules import LAW_EXPONENT
from depthlr.trace.depth import Depth, effective_depth
from depthlr.transfer.recipe import Energies, MeasuredModel, Recipe, rates_of, with_recipe_notes

ASSUMES = (
    "The best rate keeps the expected relative change of the readout per step: rate_target = rate_source * "
    "sqrt(E_source / E_target), where E is the persistent energy. Both models must be initialized as they will be "
    "trained. If several initializations are measured, the change of the rate is averaged with the law's. The "
    "law's part is wrong where a forward multiplier makes up for depth."
)
NOISY = (
    "the steps of different batches have hardly anything in common, so the measured rate is a guess: take more or "
    "larger batches."
)
NOT_COMPARED = (
    "carried rates were compared with tuned ones across depth, and for models that get wider at most as fast as "
    "deeper: between these models there is no interval."
)
AM_MUP = (
    "The best rate keeps the mean energy of the first step what it was at the source (AM-muP). Both models must be "
    "initialized as they will be trained; nothing is assumed about how energy depends on depth or width."
)
SCATTERED = (
    "initializations scatter, as those of narrow models and deep plain stacks do: the measured change is known to "
    "{:.2f} decades (one standard error), and the law counts for {:.0%} of what is carried; take more seeds or a wider "
    "model."
)
MUCH_LAW = 0.25  # the law's weight gets a note above this


@dataclass(frozen=True)
class MeasuredChange:
    """log10 of the factor on the rate, and how sure it is."""

    decades: float
    standard_error: float | None  # of the measurement alone; None if it rests on one initialization
    law_share: float  # the weight of the law in it, from 0 to 1

    @property
    def factor(self) -> float:
        return float(10**self.decades)

    def error_bound(self, source_depth: float, target_depth: float) -> float:
        """Half the interval of the carried rate, in decades. Initializations that scatter widely make it longer.

        Args:
            source_depth: Effective depth of the source.
            target_depth: Effective depth of the target.
        """
        if self.standard_error is None:
            return ONE_DRAW_ERROR.at(source_depth, target_depth)
        scatter = NORMAL_QUANTILE * (1 - self.law_share) * self.standard_error
        return max(MEASURED_ERROR.at(source_depth, target_depth), scatter)


@dataclass(frozen=True)
class Measured:
    """The ratio of persistent energies at initialization, averaged with the law by how sure each is.

    `carry` calls `measure` and then `carry_measured`, which is arithmetic on stored measurements.

    Args:
        seeds: How many initializations are drawn, if functions build the models.
        seed: The first seed.
    """

    seeds: int = SEEDS
    seed: int = 0

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        """Carry the rate by the persistent energies of both models.

        Args:
            rate: The rate tuned on the source.
            source: The recipe that was tuned. Its batches, loss and optimizer are used, or the target's if it has no
                batches.
            target: The recipe that needs a rate. Its model is counted by its own `units`.
        """
        measured = self.measure(source, target)
        carried = self.carry_measured(rate, *measured)
        return with_recipe_notes(carried, source, target, [one.own_rates for one in measured])

    def measure(self, source: Recipe, target: Recipe) -> tuple[MeasuredModel, MeasuredModel]:
        """Measure both models on the batches of one recipe. A `MeasuredModel` is not measured again.

        Args:
            source: The recipe that was tuned.
            target: The recipe that needs a rate.
        """
        given = recipe_with_batches(source, target)
        ends = {"source": source, "target": target}  # as in progress messages
        found: dict[str, Any] = {name: end.build for name, end in ends.items()}
        builds = {name: build for name, build in found.items() if not isinstance(build, MeasuredModel)}
        if builds:
            check_measuring("measured", given, builds.values())
            seeds = range(self.seed, self.seed + check.count("The number of seeds", self.seeds))
            draws = {name: Draws(build, seeds) for name, build in builds.items()}
            batches = batches_for_seeds(given.batches, max(map(len, draws.values())), None, self.seed)
            counted = {name: _counted(ends[name], batches.first) for name in draws}  # a model may have no depth
            with measuring(batches.size * sum(map(len, draws.values()))):
                energies = persistent_energies(draws, batches, given.loss_fn, given.optimizer, seed=self.seed)
            for name, own in zip(draws, energies, strict=True):
                found[name] = _measured_model(*counted[name], own, draws[name].same_weights)
        return found["source"], found["target"]

    @staticmethod
    def change(
        source: DrawnRate, target: DrawnRate, source_depth: float, target_depth: float, *, one_width: bool
    ) -> MeasuredChange:
        """The mean of the measured change and the law's, weighted by their inverse variances.

        The measurement counts alone if it rests on one initialization, whose scatter is unknown.

        Args:
            source: The rate at which the source's persistent energy is 1.
            target: The same of the target.
            source_depth: Effective depth of the source.
            target_depth: Effective depth of the target.
            one_width: Do both models have the same widths? If not, the measurement counts alone.
        """
        measured = target.decades - source.decades  # energy is quadratic in the rate: rate'^2 P'(1) = rate^2 P(1)
        if source.standard_error is None or target.standard_error is None:
            return MeasuredChange(measured, None, 0.0)
        error = math.hypot(source.standard_error, target.standard_error)
        share = law_share(error, source_depth, target_depth) if one_width else 0.0
        law = LAW_EXPONENT * math.log10(target_depth / source_depth)  # Prop. 1: eta* = kappa L^(-3/2)
        return MeasuredChange((1 - share) * measured + share * law, error, share)

    def carry_measured(self, rate: float, source: MeasuredModel, target: MeasuredModel) -> CarriedRate:
        """Carry a rate between two measured models: arithmetic alone.

        Args:
            rate: The rate tuned on the source.
            source: The measurement of the source.
            target: The measurement of the target.
        """
        depths = source.depth.total, target.depth.total
        change = self.change(source.rate, target.rate, *depths, one_width=not source.depth.other_widths(target.depth))
        notes = [*source.notes, *target.notes]
        noisy, compared = source.rate.noisy or target.rate.noisy, _was_compared(source.depth, target.depth)
        if noisy:
            notes.append(NOISY)
        if not compared:
            notes.append(NOT_COMPARED)
        # An interval is stated only where measured rates were compared with tuned ones.
        in_scope = source.in_scope and target.in_scope and compared and not noisy
        error = change.standard_error
        if error is not None and (error > LARGE_ERROR or change.law_share > MUCH_LAW):
            notes.append(SCATTERED.format(error, change.law_share))
        new_rate = finite_rate(rate * change.factor, f"depth {depths[0]:g}", f"depth {depths[1]:g}")
        carried = CarriedRate(
            new_rate,
            "measured",
            *depths,
            change.factor,
            ASSUMES,
            tuple(dict.fromkeys(notes)),
            in_scope=in_scope,
            initialization=AS_IT_IS,
        )
        return carried.with_interval(change.error_bound(*depths), EVIDENCE) if in_scope else carried


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
        builds: list[Any] = []
        for end in (source, target):
            builds.append(model_of(end.build) if callable(end.build) else end.build)
        models = [build for build in builds if not isinstance(build, Energies)]
        batches = []
        if models:
            check_measuring("am-mup", given, models)
            batches = read_batches(given.batches, None, ENERGY_BATCHES, self.seed)
        energies: list[Energies] = []
        rates: list[OwnRates | None] = []
        with measuring(len(batches) * len(models)):
            for build, end in zip(builds, (source, target), strict=True):
                if isinstance(build, Energies):
                    energies.append(build)
                    rates.append(None)
                    continue
                step = given.loss_fn, given.optimizer
                energies.append(update_energy(build, batches, *step, seed=self.seed, units=end.units))
                rates.append(rates_of(end, build))
        before, after = (rate_of(energy.aggregate(self.aggregate)) for energy in energies)
        factor = after / before  # rate'^2 S'(1) = rate^2 S(1)
        depths = len(energies[0].units), len(energies[1].units)
        new_rate = finite_rate(rate * factor, f"depth {depths[0]}", f"depth {depths[1]}")
        carried = CarriedRate(new_rate, "am-mup", *depths, factor, AM_MUP, initialization=AS_IT_IS)
        return with_recipe_notes(carried, source, target, rates)


def recipe_with_batches(source: Recipe, target: Recipe) -> Recipe:
    """The recipe whose batches, loss and optimizer are used for both models: the target if only it has batches.

    Args:
        source: The recipe that was tuned.
        target: The recipe that needs a rate.
    """
    return target if source.batches is None and target.batches is not None else source


def can_measure(source: Recipe, target: Recipe) -> bool:
    """Are both models measured already, or is there a batch to measure them on?

    Args:
        source: The recipe that was tuned.
        target: The recipe that needs a rate.
    """
    builds = source.build, target.build
    if all(isinstance(build, MeasuredModel) for build in builds):
        return True
    measurable = all(isinstance(build, MeasuredModel) or callable(build) for build in builds)  # as models are, too
    return measurable and recipe_with_batches(source, target).batches is not None


def check_measuring(rule: str, recipe: Recipe, models: Iterable[Any]) -> None:
    """Raise if something is missing that a rule needs to measure models.

    Args:
        rule: The name of the rule.
        recipe: Its batches and optimizer are used.
        models: Models, and functions that build them.
    """
    for model in models:
        if not callable(model):  # as models are, too
            raise DepthlrError(f"The rule {rule!r} measures and needs two models, not {type(model).__name__}s.")
    if recipe.batches is None:
        raise DepthlrError(f"The rule {rule!r} needs batches= for the step it measures.")
    check_fits_any_model(recipe.optimizer)


def _counted(recipe: Recipe, batch: Any) -> tuple[Depth, OwnRates, bool]:
    """The depth of a recipe's model, the rates of its optimizers, and whether the model is in training mode."""
    model = model_of(cast(Any, recipe.build))  # a model, or a function
    example = inputs_of(model, batch) if recipe.example is None else recipe.example
    depth = effective_depth(model, example, units=recipe.units)
    return depth, own_rates(optimizers_of(recipe.optimizer, model)), model.training


def _measured_model(
    depth: Depth, rates: OwnRates, training: bool, energies: Sequence[PersistentEnergy], same_weights: bool
) -> MeasuredModel:
    rate, readout_note = rate_over_draws(energies), readout_size_note(energies)
    if same_weights:
        rate = replace(rate, standard_error=None)  # the same initialization several times
    notes = {SAME_WEIGHTS_NOTE: same_weights, EVAL_MODE_NOTE: not training, readout_note: bool(readout_note)}
    found = tuple(note for note, applies in notes.items() if note and applies)
    return MeasuredModel(depth, rate, found, in_scope=training and not readout_note, own_rates=rates)


def _was_compared(source: Depth, target: Depth) -> bool:
    """Do these models differ as TransferBench's do: in depth, and in width by at most the same factor?"""
    deeper = max(target.backbone, 1) / max(source.backbone, 1)  # a stem and a head alone have no backbone
    wider = max(target.widths, default=1) / max(source.widths, default=1)
    return source.total != target.total and min(1.0, deeper) <= wider <= max(1.0, deeper)
