"""Rules that carry a rate from a tuned recipe to another one. A rule is an object with one method, `carry`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any, Protocol

from torch import nn

from depthlr import check
from depthlr.energy.batches import batches_of
from depthlr.energy.energy import ENERGY_BATCHES, update_energy
from depthlr.energy.persistent import SEEDS
from depthlr.energy.progress import measuring
from depthlr.errors import DepthlrError
from depthlr.law.carried_rate import ADAPTIVE, AS_INIT, AS_IT_IS, OTHER_INIT, UNSEEN, CarriedRate, make_carried_rate
from depthlr.law.fit import Fit
from depthlr.law.rules import (
    MEASURING_RULES,
    RULES,
    Family,
    carry,
    finite_rate,
    pathsum_transfer,
    recommended_rule,
    rule_named,
)
from depthlr.trace.depth import Depth, Units
from depthlr.trace.run import LossFn
from depthlr.transfer.measured import Measured, check_measuring
from depthlr.transfer.recipe import (
    Energies,
    Place,
    Recipe,
    family_of,
    group_notes,
    group_ratios,
    inspect_recipes,
    is_adaptive,
    optimizer_notes,
)

__all__ = [
    "AmMup",
    "ByDepth",
    "CarryRule",
    "Constant",
    "Fitted",
    "Law",
    "Measured",
    "Recipe",
    "make_rule",
    "transfer_rate",
]

AM_MUP = (
    "The best rate keeps the mean energy of the first step what it was at the source (AM-muP). Both models must be "
    "initialised as they will be trained; nothing is assumed about how energy depends on depth or width."
)
TIED = re.compile(r"weight sharing: \S+ is used 2 times")
MULTIPLIED = (
    "the branches are multiplied by {:.3g} in the source and by {:.3g} in the target. Such a forward multiplier (Depth-"
    "muP, CompleteP) makes up for depth itself, and the law on top of it would lower the rate twice: use the rule "
    "'depth-mup', 'completep' or 'measured'."
)


class CarryRule(Protocol):
    """How a rate is carried. A new rule is a class with this method."""

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        """The rate for the target, from the rate tuned on the source."""


@dataclass(frozen=True)
class ByDepth:
    """A power of effective depth: the paper's law, or a peer's rule by its name in `depthlr.law.RULES`.

    Args:
        name: The name of the rule.
        family: The optimizer's family, if it cannot be read from the optimizer.
        seed: Seeds the batch on which depth is counted.
    """

    name: str
    family: Family | None = None
    seed: int = 0

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        """Carry the rate by the effective depths of both models."""
        chosen = rule_named(self.name)
        places, optimizer = (source.build, target.build), source.optimizer
        (here, first), (there, second) = inspect_recipes(source, target, self.seed)
        if self.name in {"law", "constant"} and not math.isclose(here.multiplier, there.multiplier):
            raise DepthlrError(MULTIPLIED.format(here.multiplier, there.multiplier))
        alike = chosen.exponent_sgd == chosen.exponent_adam and not chosen.counts_paths
        kind: Family = "sgd" if alike else self.family or family_of(optimizer, places)
        if chosen.counts_paths:
            new = self._by_paths(rate, here, there, kind)
        else:
            over_updates = chosen.over_updates and bool(here.residual and there.residual)
            depths = [depth.residual if over_updates else depth.total for depth in (here, there)]
            new = carry(chosen, rate, depths[0], depths[1], kind)
        adaptive = self.name == "law" and is_adaptive(optimizer, self.family, places)
        outside = _depth_notes(here, there)
        if self.name == "constant":  # it was fitted on models with tied embeddings too
            outside = [note for note in outside if not TIED.match(note)]
        carried = make_carried_rate(
            chosen,
            rate,
            new,
            here.total,
            there.total,
            outside=outside,
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


def Constant() -> ByDepth:
    """One exponent for every recipe, rate ~ depth^(-0.2), fitted on real training: RealBench's design recipes."""
    return ByDepth("constant")


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
        """Carry the rate. Models are measured on the source's batches, and stored energies are used as they are."""
        places = [self._require_place(recipe.build) for recipe in (source, target)]
        models = [place for place in places if isinstance(place, nn.Module)]
        if models:
            check_measuring("am-mup", source)
        batches = [] if source.batches is None else batches_of(source.batches, None, ENERGY_BATCHES, self.seed)
        with measuring(len(batches) * len(models)):
            here, there = (
                update_energy(place, batches, source.loss_fn, source.optimizer, seed=self.seed, units=source.units)
                if isinstance(place, nn.Module)
                else place
                for place in places
            )
        means = here.aggregate(self.aggregate), there.aggregate(self.aggregate)
        if not min(means) > 0:
            raise DepthlrError(
                "the step moves no unit before the head in one of the models: initialise them as depthlr does (init_)."
            )
        factor = (means[0] / means[1]) ** 0.5  # rate'^2 S'(1) = rate^2 S(1)
        notes = group_notes([group_ratios(source.optimizer, model) for model in models])
        ends = len(here.units), len(there.units)
        return CarriedRate(rate * factor, "am-mup", *ends, factor, AM_MUP, tuple(notes), initialization=AS_IT_IS)

    @staticmethod
    def _require_place(place: Place) -> nn.Module | Energies:
        if isinstance(place, nn.Module | Energies):
            return place
        if callable(place):
            raise DepthlrError("The rule 'am-mup' takes models, or energies from update_energy_over_seeds.")
        raise DepthlrError(f"The rule 'am-mup' measures and needs two models, not {type(place).__name__}s.")


@dataclass(frozen=True)
class Fitted:
    """The exponent of the user's own sweep over effective depth, with its interval.

    Args:
        fit: The line through tuned rates, as `Results.fit(over="depth")` returns it.
    """

    fit: Fit

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        """Carry the rate along the slope of the fitted line."""
        here, there = (depth.total for depth, _ in inspect_recipes(source, target, 0))
        factor = (there / here) ** self.fit.slope
        assumes = f"Tuned rates go on along the fitted line: rate ~ depth^({self.fit.slope:.2f})."
        carried = CarriedRate(
            finite_rate(rate * factor, f"depth {here:g}", f"depth {there:g}"), "fitted", here, there, factor, assumes
        )
        if not self.fit.bounded:
            return carried
        ends = sorted(rate * (there / here) ** slope for slope in self.fit.interval)
        return replace(carried, low=ends[0], high=ends[1], coverage=self.fit.level)


def make_rule(
    name: str, *, family: Family | None = None, aggregate: str = "arithmetic", seed: int = 0, seeds: int = SEEDS
) -> CarryRule:
    """The rule of that name, with those of the options that it takes.

    Args:
        name: `measured`, `am-mup`, or a name in `depthlr.law.RULES`.
        family: Of a rule of depth.
        aggregate: Of `am-mup`.
        seed: Of any rule.
        seeds: Of `measured`.
    """
    if name == "measured":
        return Measured(seeds, seed)
    if name == "am-mup":
        return AmMup(aggregate, seed)
    if name in RULES:
        return ByDepth(name, family, seed)
    raise DepthlrError(f"There is no rule {name!r}: choose one of {', '.join((*MEASURING_RULES, *RULES))}.")


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
    says whether the rule's assumptions hold. Its `notes`, which are printed with it, say what speaks against the rate.

    Intervals were calibrated on runs of 100 to 200 steps. Longer runs with warm-up and decay want a much flatter
    exponent, that of the rule 'constant'.
    It is the default for recipes with a schedule or of 500 steps or more.

    Args:
        rate: The rate tuned on the source.
        source: A depth, a model, a function that builds it, energies measured before, or a `Recipe`.
        target: The same. Functions that build the models let `Measured` average over initializations.
        example: An input on which a model's depth is counted. None takes the first of `batches`.
        rule: A rule, or its name. None takes the one that `recommended_rule` names for the recipes.
        batches: What the step is measured on, as `update_energy` takes them.
        loss_fn: Takes output and target. None takes the model's own loss.
        optimizer: A name, or a factory that takes the model.
        family: Whether the optimizer's steps grow with the gradient ("sgd") or not ("adam"), for rules that need it.
        aggregate: The mean of energies that the rule "am-mup" takes.
        seed: The first seed.
        seeds: How many initializations are measured.
        units: Modules that count as one unit each, as in `effective_depth`.

    Returns:
        The rate with its interval, and how it was computed.
    """
    rate = check.positive("The rate", rate)
    seed = check.seed("The seed", seed)
    given = {"batches": batches, "loss_fn": loss_fn, "optimizer": optimizer, "example": example, "units": units}
    ends = [place if isinstance(place, Recipe) else Recipe(place, **given) for place in (source, target)]
    if rule is None:
        longest = max(ends, key=lambda recipe: (recipe.schedule != "constant", recipe.steps or 0))
        measurable = ends[0].batches is not None
        rule = recommended_rule(schedule=longest.schedule, steps=longest.steps, measurable=measurable)
    if isinstance(rule, str):
        rule = make_rule(rule, family=family, aggregate=aggregate, seed=seed, seeds=seeds)
    return rule.carry(rate, ends[0], ends[1])


def _depth_notes(here: Depth, there: Depth) -> list[str]:
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
