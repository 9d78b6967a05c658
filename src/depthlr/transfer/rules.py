"""Rules that carry a rate from the recipe that was tuned to another one: each an object with one method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from numbers import Real
from typing import Any, Protocol

from torch import nn
from torch.optim import SGD

from depthlr.energy.batches import (
    ALIKE,
    EVALUATED,
    Build,
    LossFn,
    Shares,
    batches_of,
    built,
    depth_on,
    draws,
    draws_anew,
    shares,
    split,
)
from depthlr.energy.energy import LIMIT, Energy, EnergyOverSeeds, update_energy
from depthlr.energy.persistent import SEEDS, UNSURE, DrawnRate, persistent_energies, rate_over_draws, strange_size
from depthlr.energy.progress import measuring
from depthlr.energy.step import LARGEST_GROUP, OWN_FACTORY, is_factory, optimizers_of, rate_ratios
from depthlr.errors import DepthlrError
from depthlr.init.plan import follows_plan, init_plan
from depthlr.law.carried_rate import AS_INIT, AS_IT_IS, OTHER_INIT, UNSEEN, CarriedRate, carried_by
from depthlr.law.domain import MOST_SEED, positive, whole
from depthlr.law.domain import carried as finite_rate
from depthlr.law.evidence import ADAPTIVE
from depthlr.law.fit import Fit
from depthlr.law.pathsum import pathsum_transfer
from depthlr.law.rules import OPTIMIZER_FAMILIES, RULES, Family, carry, rule_named
from depthlr.trace.depth import Depth, Units, effective_depth
from depthlr.trace.run import check_runnable, is_sharded, random_states_kept
from depthlr.transfer.measured_change import measured_change
from depthlr.transfer.missed import compared, measured_within

MEASURED = (
    "What batches agree on moves the readout, relative to its size, as far at the target as at the source. Both models "
    "must be initialised as they will be trained. Over several initialisations the law is leant on as far as these "
    "scatter, which is wrong where a forward multiplier makes up for depth."
)
AM_MUP = (
    "The best rate keeps the mean energy of the first step what it was at the source (AM-muP). Both models must be "
    "initialised as they will be trained; nothing is assumed about how energy depends on depth or width."
)
NOISY = "the batches agree on hardly anything, so the measured rate is a guess: take more or larger ones."
NOT_COMPARED = (
    "carried rates were compared with tuned ones across depth, and across width where it grows with depth and no more: "
    "between these models there is no interval."
)
UNEQUAL_GROUPS = (
    "the groups' rates, relative to the largest, are not the same in every model (down to {:.3g} and {:.3g}), as with "
    "layer-wise decay over other numbers of layers: carried rates were not compared with tuned ones there."
)
TWO_RATES = (
    "{} step together: their rates change by one factor, so their ratio is kept; how the best ratio changes with depth "
    "was not tested."
)
MULTIPLIED = (
    "the branches are multiplied by {:.3g} in the source and by {:.3g} in the target. Such a forward multiplier (Depth-"
    "muP, CompleteP) makes up for depth itself, and the law on top of it would lower the rate twice: use the rule "
    "'depth-mup', 'completep' or 'measured'."
)
MUCH = 0.25  # of what is carried, by the law: worth a note
MEASURING = {"measured": MEASURED, "am-mup": AM_MUP}  # rules that look at the models themselves
Energies = Energy | EnergyOverSeeds
Place = int | float | Depth | nn.Module | Build | Energies


@dataclass(frozen=True)
class Recipe:
    """All that decides a run apart from its rate.

    Args:
        build: a function that builds the model, as it is initialized; or a model, a depth, or energies measured before.
        batches: what one optimizer step sees each, as `update_energy` takes them.
        loss_fn: of output and target; None takes the model's own loss.
        optimizer: a name, or a factory that takes the model.
        schedule: how the rate moves during the run.
        steps: how many steps the run has.
        example: an input on which depth is counted; the first of `batches` unless given.
        units: modules that count as one unit each, as in `effective_depth`.
    """

    build: Place
    batches: Any = None
    loss_fn: LossFn | None = None
    optimizer: Any = "sgd"
    schedule: str = "constant"
    steps: int | None = None
    example: Any = None
    units: Units = None

    def replace(self, **changes: Any) -> Recipe:
        """The same recipe with some entries changed."""
        return replace(self, **changes)

    @staticmethod
    def from_trainer(trainer: Any) -> Recipe:
        """The recipe of a Hugging Face Trainer, as `depthlr.integrations.hf.recipe_from_trainer` reads it."""
        # By name: integrations lie above this layer, and transformers is needed by this call alone.
        recipe: Recipe = import_module("depthlr.integrations.hf").recipe_from_trainer(trainer)
        return recipe


class CarryRule(Protocol):
    """How a rate is carried. A new rule is a class with this method, and a row in `RULES` if it is to have a name."""

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        """The rate for the target, from the rate tuned on the source."""


@dataclass(frozen=True)
class ByDepth:
    """A power of effective depth: the paper's law, or a peer's rule by its name in `depthlr.law.RULES`.

    Args:
        name: which rule.
        family: whether the optimizer's steps grow with the gradient, where that cannot be told from the optimizer.
        seed: of the batches on which depth is counted.
    """

    name: str
    family: Family | None = None
    seed: int = 0

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        chosen = rule_named(self.name)
        places, optimizer = (source.build, target.build), source.optimizer
        (here, first), (there, second) = _both_seen(source, target, self.seed)
        if self.name == "law" and not math.isclose(here.multiplier, there.multiplier):
            raise DepthlrError(MULTIPLIED.format(here.multiplier, there.multiplier))
        alike = chosen.exponent_sgd == chosen.exponent_adam and not chosen.counts_paths
        kind: Family = "sgd" if alike else self.family or family_of(optimizer, places)
        if chosen.counts_paths:
            new = self._by_paths(rate, here, there, kind)
        else:
            over_updates = chosen.over_updates and bool(here.residual and there.residual)
            depths = [depth.residual if over_updates else depth.total for depth in (here, there)]
            new = carry(chosen, rate, depths[0], depths[1], kind)
        adaptive = self.name == "law" and _is_adaptive(optimizer, self.family, places)
        carried = carried_by(
            chosen,
            rate,
            new,
            here.total,
            there.total,
            outside=_notes(here, there),
            facts={*here.norms, *there.norms, *([ADAPTIVE] if adaptive else [])},
            initialization=next((init for init in (OTHER_INIT, AS_INIT) if init in (first, second)), UNSEEN),
        )
        return replace(carried, notes=(*carried.notes, *optimizer_notes(optimizer, places)))

    def _by_paths(self, rate: float, here: Depth, there: Depth, kind: Family) -> float:
        if kind != "sgd":
            raise DepthlrError(
                f"The rule {self.name!r} is about SGD: its authors prescribe nothing for other optimizers."
            )
        if not (here.units and there.units):
            raise DepthlrError(f"The rule {self.name!r} counts paths and needs models, not depths: pass both models.")
        counts = [(depth.plain, depth.residual) for depth in (here, there)]
        return pathsum_transfer(rate, source=counts[0], target=counts[1])


def Law(family: Family | None = None) -> ByDepth:
    """The paper's rule: rate ~ depth^(-3/2)."""
    return ByDepth("law", family)


@dataclass(frozen=True)
class Measured:
    """The ratio of persistent energies at initialization, drawn to the law as far as initializations scatter.

    Args:
        seeds: how many initializations are drawn, where functions build the models.
        seed: the first of them.
    """

    seeds: int = SEEDS
    seed: int = 0

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        places = [_place(one.build, "measured") for one in (source, target)]
        _check_measuring("measured", source)
        drawn = any(not isinstance(place, nn.Module) for place in places)
        count = whole(self.seeds, "The number of seeds", least=1) if drawn else 1
        seeds = range(self.seed, self.seed + count)
        batches = shares(source.batches, len(seeds), None, self.seed)
        return _measured(rate, places, batches, source.loss_fn, source.optimizer, seeds, source.units)


@dataclass(frozen=True)
class AmMup:
    """The ratio of mean update energies of the first step (AM-muP).

    Args:
        aggregate: which mean over the units: arithmetic, geometric or harmonic.
        seed: of what models and batches draw.
    """

    aggregate: str = "arithmetic"
    seed: int = 0

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        places = [_place(one.build, "am-mup") for one in (source, target)]
        if any(not isinstance(place, Energies) for place in places):
            _check_measuring("am-mup", source)
        return _am_mup(rate, places, source, self.aggregate, self.seed)


@dataclass(frozen=True)
class Fitted:
    """The exponent of the user's own sweep over effective depth, with its interval.

    Args:
        fit: the line through tuned rates, as `Results.fit(over="depth")` gives it.
    """

    fit: Fit

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        here, there = (depth.total for depth, _ in _both_seen(source, target, 0))
        factor = (there / here) ** self.fit.slope
        assumes = f"Tuned rates go on along the fitted line: rate ~ depth^({self.fit.slope:.2f})."
        carried = CarriedRate(
            finite_rate(rate * factor, f"depth {here:g}", f"depth {there:g}"), "fitted", here, there, factor, assumes
        )
        if not self.fit.bounded:
            return carried
        ends = sorted(rate * (there / here) ** slope for slope in self.fit.interval)
        return replace(carried, low=ends[0], high=ends[1], coverage=self.fit.level)


def rule_of(
    name: str, *, family: Family | None = None, aggregate: str = "arithmetic", seed: int = 0, seeds: int = SEEDS
) -> CarryRule:
    """The rule of that name, with those of the options that it takes."""
    if name == "measured":
        return Measured(seeds, seed)
    if name == "am-mup":
        return AmMup(aggregate, seed)
    if name in RULES:
        return ByDepth(name, family, seed)
    raise DepthlrError(f"There is no rule {name!r}: choose one of {', '.join((*MEASURING, *RULES))}.")


def transfer_rate(
    rate: float,
    source: Place | Recipe,
    target: Place | Recipe,
    example: Any = None,
    *,
    rule: str | CarryRule | None = None,
    batches: Any = None,
    loss_fn: LossFn | None = None,
    optimizer: Any = "sgd",
    family: Family | None = None,
    aggregate: str = "arithmetic",
    seed: int = 0,
    seeds: int = SEEDS,
    units: Units = None,
) -> CarriedRate:
    """The rate for `target`, from the rate tuned on `source`: two depths, two models, or two recipes.

    Initialize both models by `init_` for the law, and as they will be trained for `Measured`. The result's `in_scope`
    says whether what the rule assumes was found. What speaks against the rate is in `notes`, which printing it shows.

    Intervals were calibrated on runs of 100 to 200 steps; longer runs with warm-up and decay want a much flatter
    exponent (-0.06 to -0.58 over effective depth in four recipes that were tuned).

    Args:
        rate: the rate tuned on the source.
        source: a depth, a model, a function that builds it, energies measured before, or a `Recipe`.
        target: the same. Functions that build the models let `Measured` average over initializations.
        example: an input on which a model's depth is counted; the first of `batches` unless given.
        rule: a rule, or its name. Unless given, models with batches are measured, and else the law is used.
        batches: with `loss_fn` and `optimizer`, what the step is measured on, as `update_energy` takes them.
        loss_fn: of output and target; None takes the model's own loss.
        optimizer: a name, or a factory that takes the model.
        family: whether the optimizer's steps grow with the gradient ("sgd") or not ("adam"), for rules that ask.
        aggregate: which mean of energies the rule "am-mup" takes.
        seed: the first seed.
        seeds: how many initializations are measured.
        units: modules that count as one unit each, as in `effective_depth`.
    """
    rate = positive(rate, "The rate")
    seed = whole(seed, "The seed", most=MOST_SEED)
    given = {"batches": batches, "loss_fn": loss_fn, "optimizer": optimizer, "example": example, "units": units}
    ends = [place if isinstance(place, Recipe) else Recipe(place, **given) for place in (source, target)]
    if rule is None:
        rule = "law" if ends[0].batches is None else "measured"
    if isinstance(rule, str):
        rule = rule_of(rule, family=family, aggregate=aggregate, seed=seed, seeds=seeds)
    return rule.carry(rate, ends[0], ends[1])


def family_of(optimizer: Any, places: Sequence[Any] = ()) -> Family:
    """Which family of rules an optimizer belongs to: steps proportional to the gradient, or not.

    Args:
        optimizer: What `optimizers_of` takes.
        places: A factory is called with the first model among these, or what a function among them builds.
    """
    if isinstance(optimizer, str) and optimizer in OPTIMIZER_FAMILIES:
        return OPTIMIZER_FAMILIES[optimizer]
    optimizers = optimizers_of(optimizer, _model_among(places))
    if all(isinstance(one, SGD) for one in optimizers):
        return "sgd"
    if all(type(one).__module__.startswith("torch.optim") for one in optimizers):
        return "adam"
    names = ", ".join(type(one).__name__ for one in optimizers)
    raise DepthlrError(f"this rule depends on the optimizer, and {names} is not torch's: pass family='sgd' or 'adam'.")


def _model_among(places: Sequence[Any]) -> nn.Module:
    for place in places:
        if isinstance(place, nn.Module):
            return place
        if callable(place):
            with random_states_kept():
                return built(place)
    return nn.Linear(2, 2)  # of depths alone nothing more is known, and most factories take any model


def _is_adaptive(optimizer: Any, family: Family | None, places: Sequence[Any]) -> bool:
    """Is it known that the step does not grow with the gradient?"""
    try:
        return (family or family_of(optimizer, places)) == "adam"
    except DepthlrError:
        if isinstance(optimizer, str):
            raise
        return False  # another library's optimizer, or a factory that cannot make one for this model


def _both_seen(source: Recipe, target: Recipe, seed: int) -> list[tuple[Depth, str]]:
    """Each recipe's depth and initialization; one batch serves both where no example is given."""
    batches = source.batches if source.batches is not None else target.batches
    wanted = batches is not None and (source.example is None or target.example is None)
    batch = batches_of(batches, 1, 1, seed)[0] if wanted else None
    return [_seen(recipe, batch) for recipe in (source, target)]


def _seen(recipe: Recipe, batch: Any) -> tuple[Depth, str]:
    """A recipe's depth, and how its weights are initialized."""
    place = recipe.build
    if isinstance(place, Depth):
        return place, UNSEEN
    if isinstance(place, nn.Module):
        return _counted(place, recipe, batch)
    if isinstance(place, Energies):
        return Depth(len(place.units), len(place.units)), UNSEEN
    if callable(place):
        with random_states_kept():
            model = built(place)
        return _counted(model, recipe, batch)
    if isinstance(place, bool) or not isinstance(place, Real) or not float(place) > 0:
        raise DepthlrError(f"a source or target is a model or a depth above 0, not {place!r}.")
    return Depth(place, place), UNSEEN  # fractional depths are fine for arithmetic


def _counted(model: nn.Module, recipe: Recipe, batch: Any) -> tuple[Depth, str]:
    example = recipe.example
    if example is None:
        if batch is None:
            raise DepthlrError("counting a model's depth needs an example input: pass example= or batches=.")
        check_runnable(model)
        (positional, named), _ = split(batch, next(model.parameters()).device)
        example = named or positional
    return effective_depth(model, example, units=recipe.units), _initialization(model, example)


def _initialization(model: nn.Module, example: Any) -> str:
    if is_sharded(model) or any(parameter.is_meta for parameter in model.parameters()):
        return UNSEEN
    try:
        plan = init_plan(model, example)
    except DepthlrError:  # a recurrent model, whose depth the user gives by units=
        return UNSEEN
    return AS_INIT if follows_plan(model, plan) else OTHER_INIT


def _notes(here: Depth, there: Depth) -> list[str]:
    notes = list(dict.fromkeys(here.flags + there.flags))
    if widths := here.other_widths(there):
        notes.append(
            f"widths differ ({widths}): the rules know depth alone, and the best rate also falls "
            "with width; use the rule 'measured' or models of one width."
        )
    if here.units and here.total == there.total:
        notes.append(
            f"both models have {here.total} units, so no rate changes: if one is deeper, units= counts your own blocks."
        )
    return notes


def _place(place: Place, rule: str) -> nn.Module | Build | Energies:
    if isinstance(place, nn.Module) or (rule == "am-mup" and isinstance(place, Energies)):
        return place
    if callable(place):
        if rule == "am-mup":
            raise DepthlrError("The rule 'am-mup' takes models, or energies from update_energy_over_seeds.")
        return place
    raise DepthlrError(f"The rule {rule!r} measures and needs two models, not {type(place).__name__}s.")


def _check_measuring(rule: str, recipe: Recipe) -> None:
    if recipe.batches is None:
        raise DepthlrError(f"The rule {rule!r} needs batches= for the step it measures.")
    if not is_factory(recipe.optimizer):
        raise DepthlrError(f"the optimizer is bound to one model: pass a factory such as {OWN_FACTORY}.")


def _measured(
    rate: float,
    places: Sequence[Any],
    batches: Shares,
    loss_fn: Any,
    optimizer: Any,
    seeds: range,
    units: Units,
) -> CarriedRate:
    drawn: list[DrawnRate] = []
    depths: list[Depth] = []
    ratios: list[tuple[float, ...]] = []
    notes = []
    models = {
        name: iter([place]) if isinstance(place, nn.Module) else draws(place, seeds)
        for name, place in zip(("source", "target"), places, strict=True)
    }
    initializations = sum(1 if isinstance(place, nn.Module) else len(seeds) for place in places)
    with measuring(initializations * batches.size):
        energies = persistent_energies(models, batches, loss_fn, optimizer, seed=seeds[0])
    for place, measured in zip(places, energies, strict=True):
        found = rate_over_draws(measured)
        if isinstance(place, nn.Module):
            model = place
        else:
            anew = draws_anew(place)
            found = found if anew else replace(found, standard_error=None)  # one draw, however often
            notes += [] if anew else [ALIKE]
            with random_states_kept():
                model = built(place)
        drawn.append(found)
        notes += [] if model.training else [EVALUATED]
        notes += [strange] if (strange := strange_size(measured)) else []
        depths.append(depth_on(model, batches.first, units))
        ratios.append(group_ratios(optimizer, model))
    here, there = drawn
    source, target = (depth.total for depth in depths)
    change = measured_change(here, there, source, target, one_width=not depths[0].other_widths(depths[1]))
    if here.noisy or there.noisy:
        notes.append(NOISY)
    notes += [] if compared(*depths) else [NOT_COMPARED]
    notes += group_notes(ratios)
    known = not set(notes) - {ALIKE, LARGEST_GROUP}  # how far such rates miss: not of guesses and models in eval mode
    notes += optimizer_notes(optimizer, [model])
    error = change.standard_error
    if error is not None and (error > UNSURE or change.law_share > MUCH):
        notes.append(
            "initialisations scatter, as those of narrow models and deep plain stacks do: the measured change is known "
            f"to {error:.2f} decades (one standard error), and the law counts for {change.law_share:.0%} of what is "
            "carried; take more seeds or a wider model."
        )
    moved = finite_rate(rate * change.factor, f"depth {source:g}", f"depth {target:g}")
    carried = CarriedRate(
        moved,
        "measured",
        source,
        target,
        change.factor,
        MEASURED,
        tuple(dict.fromkeys(notes)),
        in_scope=known,
        initialization=AS_IT_IS,
    )
    return carried.within(measured_within(change, source, target)) if known else carried


def group_ratios(optimizer: Any, model: nn.Module) -> tuple[float, ...]:
    """The rates of a model's parameter groups over the largest, as the optimizer's factory sets them."""
    return rate_ratios(optimizers_of(optimizer, model))


def group_notes(ratios: Sequence[tuple[float, ...]]) -> list[str]:
    """Of which group a carried rate is, and whether the models' groups differ; `ratios` has one entry per model."""
    notes = [] if set(ratios) <= {(1.0,)} else [LARGEST_GROUP]
    if len(set(ratios)) > 1:
        notes.append(UNEQUAL_GROUPS.format(ratios[0][-1], ratios[-1][-1]))
    return notes


def optimizer_notes(optimizer: Any, places: Sequence[Any]) -> list[str]:
    """How the rates of several optimizers change, such as Muon for matrices and AdamW for the rest."""
    if not any(map(callable, places)):  # depths alone
        return []
    try:
        names = [type(one).__name__ for one in optimizers_of(optimizer, _model_among(places))]
    except DepthlrError:  # a factory that cannot make one for this model: the rule does not need it
        return []
    return [TWO_RATES.format(" and ".join(names))] if len(names) > 1 else []


def _am_mup(
    rate: float,
    places: Sequence[Any],
    recipe: Recipe,
    aggregate: str,
    seed: int,
) -> CarriedRate:
    batches = recipe.batches
    given = [] if batches is None else batches_of(batches, None, LIMIT, seed)  # once, for both models
    with measuring(len(given) * sum(not isinstance(place, Energies) for place in places)):
        here, there = (
            place
            if isinstance(place, Energies)
            else update_energy(place, given, recipe.loss_fn, recipe.optimizer, seed=seed, units=recipe.units)
            for place in places
        )
    if not (here.aggregate(aggregate) > 0 and there.aggregate(aggregate) > 0):
        raise DepthlrError(
            "the step moves no unit before the head in one of the models: initialise them as depthlr does (init_)."
        )
    # rate'^2 S'(1) = rate^2 S(1).
    factor = (here.aggregate(aggregate) / there.aggregate(aggregate)) ** 0.5
    notes = group_notes([group_ratios(recipe.optimizer, place) for place in places if isinstance(place, nn.Module)])
    ends = len(here.units), len(there.units)
    return CarriedRate(rate * factor, "am-mup", *ends, factor, AM_MUP, tuple(notes), initialization=AS_IT_IS)
