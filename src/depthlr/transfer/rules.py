"""Rules that carry a rate from a tuned recipe to another one. A rule is an object with one method, `carry`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from torch import nn

from depthlr import check
from depthlr.energy.batches import read_batches
from depthlr.energy.energy import ENERGY_BATCHES, update_energy
from depthlr.energy.progress import measuring
from depthlr.errors import DepthlrError
from depthlr.law.carried_rate import ADAPTIVE, AS_INIT, AS_IT_IS, OTHER_INIT, UNSEEN, CarriedRate, finite_rate
from depthlr.law.fit import Fit
from depthlr.law.rules import RULES, DepthRule, Family, pathsum_transfer, recommended_rule, rule_named
from depthlr.trace.depth import TIED, Depth, Units
from depthlr.trace.run import LossFn
from depthlr.transfer.measured import Measured, can_measure, check_measuring, recipe_with_batches
from depthlr.transfer.recipe import (
    Energies,
    ModelLike,
    Recipe,
    count_depths,
    depths_and_initializations,
    family_of,
    group_notes,
    group_ratios,
    optimizer_notes,
)

__all__ = ["AmMup", "ByDepth", "Constant", "Fitted", "Law", "Measured", "Recipe", "Rule", "make_rule", "transfer_rate"]

AM_MUP = (
    "The best rate keeps the mean energy of the first step what it was at the source (AM-muP). Both models must be "
    "initialized as they will be trained; nothing is assumed about how energy depends on depth or width."
)
MULTIPLIED = (
    "the branches are multiplied by {:.3g} in the source and by {:.3g} in the target. Such a forward multiplier (Depth-"
    "muP, CompleteP) makes up for depth itself, and the law on top of it would lower the rate twice: use the rule "
    "'depth-mup', 'completep' or 'measured'."
)

TOLD_BY_RECIPES = (
    "two recipes hold these entries themselves, and {} would be ignored: write it into the recipes, such as "
    "recipe.replace(...)."
)
TOLD_BY_RULE = "a rule given as an object has its own options, and {} would be ignored: pass it to the rule's class."
MEASURED_ENERGIES = "energies that were measured before are carried by the rule 'am-mup': pass rule='am-mup'."
OPTIONS_OF = {"measured": ("seed", "seeds"), "am-mup": ("seed", "aggregate")}  # by rule
OPTIONS_OF_DEPTH = ("seed", "family")  # of every other rule


class Rule(Protocol):
    """How a rate is carried. A new rule is a class with this method."""

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        """The rate for the target, from the rate tuned on the source.

        Args:
            rate: The rate tuned on the source.
            source: The recipe that was tuned.
            target: The recipe that needs a rate.
        """


@dataclass(frozen=True)
class ByDepth:
    """A rule that looks at effective depths alone: the paper's law, or a peer's rule.

    Args:
        rule: One of `depthlr.law.RULES`, or a `DepthRule` of one's own.
        family: The optimizer's family, if it cannot be read from the optimizer.
        seed: Seeds the batch on which depth is counted.
    """

    rule: DepthRule
    family: Family | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.family is not None:
            self.rule.exponent(self.family)  # raises for a family that does not exist

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        """Carry the rate by the effective depths of both models. Arguments are those of `Rule.carry`."""
        return self.carry_counted(rate, source, target, depths_and_initializations(source, target, seed=self.seed))

    def carry_counted(
        self, rate: float, source: Recipe, target: Recipe, counted: Sequence[tuple[Depth, str]]
    ) -> CarriedRate:
        """Carry the rate between models whose depths and initializations are known.

        Args:
            rate: The rate tuned on the source.
            source: The recipe that was tuned.
            target: The recipe that needs a rate.
            counted: Depth and initialization of the source and of the target, from `depths_and_initializations`.
        """
        rule = self.rule
        (source_depth, source_init), (target_depth, target_init) = counted
        multipliers = source_depth.multiplier, target_depth.multiplier
        if rule.refuses_multiplier and not math.isclose(*multipliers):
            raise DepthlrError(MULTIPLIED.format(*multipliers))
        family = self._family(source, target)
        new_rate = _new_rate(rule, rate, source_depth, target_depth, family)
        properties = {*source_depth.norms, *target_depth.norms}
        if family == "adam":
            properties.add(ADAPTIVE)
        violations = _depth_notes(source_depth, target_depth, (TIED,) if rule.allows_tied else ())
        initialization = next(init for init in (OTHER_INIT, UNSEEN, AS_INIT) if init in (source_init, target_init))
        carried = rule.carried_rate(
            rate,
            new_rate,
            source_depth.total,
            target_depth.total,
            violations=violations,
            properties=properties,
            initialization=initialization,
        )
        notes = optimizer_notes(new_rate, source.optimizer, source.build, target.build)
        return replace(carried, notes=(*carried.notes, *notes))

    def _family(self, source: Recipe, target: Recipe) -> Family:
        if self.family is not None:
            return self.family
        try:
            return family_of(source.optimizer, source.build, target.build)
        except DepthlrError:  # another library's optimizer, or a factory that cannot make one for this model
            if self.rule.exponent_sgd != self.rule.exponent_adam or self.rule.counts == "paths":
                raise
            return "sgd"  # both exponents are equal, and nothing is said of an optimizer that is not known


def Law(family: Family | None = None) -> ByDepth:
    """The paper's rule, rate ~ depth^(-3/2): a function that returns a `ByDepth`.

    Args:
        family: The optimizer's family, if it cannot be read from the optimizer.
    """
    return ByDepth(RULES["law"], family)


def Constant() -> ByDepth:
    """One exponent for every recipe, rate ~ depth^(-0.2): a function that returns a `ByDepth`.

    The exponent was fitted on real training, RealBench's design recipes.
    """
    return ByDepth(RULES["constant"])


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
        builds: tuple[Any, Any] = (source.build, target.build)
        models = [build for build in builds if not isinstance(build, Energies)]
        batches = []
        if models:
            check_measuring("am-mup", given, models)
            if not all(isinstance(model, nn.Module) for model in models):
                raise DepthlrError("The rule 'am-mup' takes models, or energies from update_energy_over_seeds.")
            batches = read_batches(given.batches, None, ENERGY_BATCHES, self.seed)
        with measuring(len(batches) * len(models)):
            energies = [self._energy(recipe, batches, given) for recipe in (source, target)]
        means = [energy.aggregate(self.aggregate) for energy in energies]
        if not min(means) > 0:
            raise DepthlrError(
                "the step moves no unit before the head in one of the models: initialize them as depthlr does (init_)."
            )
        factor = (means[0] / means[1]) ** 0.5  # rate'^2 S'(1) = rate^2 S(1)
        notes = group_notes([group_ratios(given.optimizer, model) for model in models])
        notes += optimizer_notes(rate * factor, given.optimizer, *models)
        depths = len(energies[0].units), len(energies[1].units)
        return CarriedRate(rate * factor, "am-mup", *depths, factor, AM_MUP, tuple(notes), initialization=AS_IT_IS)

    def _energy(self, recipe: Recipe, batches: list[Any], given: Recipe) -> Energies:
        build: Any = recipe.build
        if isinstance(build, Energies):
            return build
        return update_energy(build, batches, given.loss_fn, given.optimizer, seed=self.seed, units=recipe.units)


@dataclass(frozen=True)
class Fitted:
    """The exponent of the user's own sweep over effective depth, with its interval.

    Args:
        fit: The line through tuned rates, as `Results.fit(over="depth")` returns it.
    """

    fit: Fit

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        """Carry the rate along the slope of the fitted line. Arguments are those of `Rule.carry`."""
        source_depth, target_depth = count_depths(source, target)
        depths = source_depth.total, target_depth.total
        ratio = depths[1] / depths[0]
        factor = ratio**self.fit.slope
        new_rate = finite_rate(rate * factor, f"depth {depths[0]:g}", f"depth {depths[1]:g}")
        assumes = f"Tuned rates go on along the fitted line: rate ~ depth^({self.fit.slope:.2f})."
        notes = optimizer_notes(new_rate, source.optimizer, source.build, target.build)
        carried = CarriedRate(new_rate, "fitted", *depths, factor, assumes, tuple(notes))
        if not self.fit.bounded:
            return carried
        low, high = sorted(rate * ratio**slope for slope in self.fit.interval)
        return replace(carried, low=low, high=high, coverage=self.fit.level)


def make_rule(name: str, **options: Any) -> Rule:
    """The rule of that name.

    Args:
        name: `measured`, `am-mup`, or a name in `depthlr.law.RULES`.
        **options: `seed` of any rule, `seeds` of `measured`, `aggregate` of `am-mup`, `family` of a rule of depth.

    Raises:
        DepthlrError: There is no such rule, or it has no such option.
    """
    if name not in OPTIONS_OF:
        rule_named(name)  # raises for a name that no rule has
    if ignored := [option for option in options if option not in _options_of(name, options)]:
        raise DepthlrError(f"The rule {name!r} has no option {_arguments(ignored)}: leave it out.")
    if name == "measured":
        return Measured(**options)
    if name == "am-mup":
        return AmMup(**options)
    return ByDepth(rule_named(name), **options)


def _options_of(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that a rule has."""
    return {option: options[option] for option in OPTIONS_OF.get(name, OPTIONS_OF_DEPTH) if option in options}


def transfer_rate(
    rate: float,
    source: ModelLike | Recipe,
    target: ModelLike | Recipe,
    example: Any = None,
    *,
    rule: str | Rule | DepthRule | None = None,
    batches: Any = None,
    loss_fn: LossFn | None = None,
    optimizer: Any = None,
    schedule: str | None = None,
    steps: int | None = None,
    family: Family | None = None,
    aggregate: str | None = None,
    seed: int = 0,
    seeds: int | None = None,
    units: Units = None,
) -> CarriedRate:
    """The rate for `target`, from the rate tuned on `source`: two depths, two models, or two recipes.

    The default rule is `constant` for a run with a schedule or of at least 500 steps. For other runs it is `measured`
    if there are models and batches. Else it is `law` for depths and for models as `init_` draws them, and `constant`
    for models that are initialized otherwise.

    The result's `in_scope` says whether the rule's assumptions hold. Its `notes`, which are printed with it, name
    reasons to distrust the rate.

    Intervals of all rules but 'constant' are from runs of 100 to 200 steps. In longer runs with warm-up and decay,
    rates fall much more slowly with depth: give steps or schedule, and the rule is 'constant'.

    Args:
        rate: The rate tuned on the source.
        source: A depth, a model, a function that builds it, or a `Recipe`. With the rule "am-mup" also energies that
            were measured before.
        target: The same. Functions that build the models let `Measured` average over initializations.
        example: An input on which a model's depth is counted. None takes the first of `batches`.
        rule: A rule, its name, or a `DepthRule`. None takes the one that `recommended_rule` names for the recipes, and
            for how the models are initialized.
        batches: What the step is measured on, as `update_energy` takes them.
        loss_fn: Takes output and target. None takes the model's own loss.
        optimizer: A name, or a factory that takes the model. None is "sgd".
        schedule: How the rate changes during the run, such as "warmup-cosine". None is "constant".
        steps: How many steps the run has.
        family: Whether the optimizer's steps grow with the gradient ("sgd") or not ("adam"), for rules that need it.
        aggregate: The mean of energies that the rule "am-mup" takes: arithmetic (the default), geometric or harmonic.
        seed: The first seed.
        seeds: How many initializations the rule "measured" draws. None is 8.
        units: Modules that count as one unit each, as in `effective_depth`.

    Returns:
        The rate with its interval, and how it was computed.

    Raises:
        DepthlrError: Two recipes are given and an entry of a recipe beside them, or an option that the given rule
            does not have.
    """
    rate = check.positive("The rate", rate)
    seed = check.seed("The seed", seed)
    entries = {"batches": batches, "loss_fn": loss_fn, "optimizer": optimizer, "example": example, "units": units}
    entries |= {"schedule": schedule, "steps": steps}
    entries = {name: value for name, value in entries.items() if value is not None}
    if entries and isinstance(source, Recipe) and isinstance(target, Recipe):
        raise DepthlrError(TOLD_BY_RECIPES.format(_arguments(entries)))
    options: dict[str, Any] = {"family": family, "aggregate": aggregate, "seed": seed or None, "seeds": seeds}
    options = {name: value for name, value in options.items() if value is not None}
    if isinstance(rule, DepthRule):
        rule = ByDepth(rule)
    if options and rule is not None and not isinstance(rule, str):
        raise DepthlrError(TOLD_BY_RULE.format(_arguments(options)))
    options["seed"] = seed
    if not isinstance(source, Recipe):
        source = Recipe(source, **entries)
    if not isinstance(target, Recipe):
        target = Recipe(target, **entries)
    if rule is None:
        return _carry_by_default(rate, source, target, options)
    if isinstance(rule, str):
        rule = make_rule(rule, **options)
    return rule.carry(rate, source, target)


def _carry_by_default(rate: float, source: Recipe, target: Recipe, options: dict[str, Any]) -> CarriedRate:
    """Carry by the rule that `recommended_rule` names, with those of the options that it takes."""
    if any(isinstance(recipe.build, Energies) for recipe in (source, target)):
        raise DepthlrError(MEASURED_ENERGIES)
    schedule = target.schedule if source.schedule == "constant" else source.schedule
    steps = max(source.steps or 0, target.steps or 0)
    measurable = can_measure(source, target)
    by_init, otherwise = (
        recommended_rule(schedule=schedule, steps=steps, measurable=measurable, own_init=own) for own in (False, True)
    )
    if by_init == otherwise:  # how the models are initialized changes nothing
        return make_rule(by_init, **_options_of(by_init, options)).carry(rate, source, target)
    counted = depths_and_initializations(source, target, seed=options["seed"])
    own_init = any(initialization == OTHER_INIT for _, initialization in counted)
    rule = ByDepth(rule_named(otherwise if own_init else by_init), options.get("family"), options["seed"])
    return rule.carry_counted(rate, source, target, counted)


def _arguments(names: Iterable[str]) -> str:
    return ", ".join(f"{name}=" for name in names)


def _new_rate(rule: DepthRule, rate: float, source: Depth, target: Depth, family: Family) -> float:
    if rule.counts == "paths":
        if family != "sgd":
            raise DepthlrError(
                f"The rule {rule.name!r} is about SGD: its authors prescribe nothing for other optimizers."
            )
        if not (source.units and target.units):
            raise DepthlrError(f"The rule {rule.name!r} counts paths and needs models, not depths: pass both models.")
        return pathsum_transfer(rate, source=(source.plain, source.residual), target=(target.plain, target.residual))
    if rule.counts == "updates" and source.residual and target.residual:
        return rule.new_rate(rate, source.residual, target.residual, family)
    return rule.new_rate(rate, source.total, target.total, family)


def _depth_notes(source: Depth, target: Depth, allowed: Collection[str]) -> list[str]:
    """What speaks against a rule of depth, apart from flags of the kinds that it allows."""
    flags = dict.fromkeys(source.flagged + target.flagged)
    notes = [flag.sentence for flag in flags if flag.kind not in allowed]
    if widths := source.other_widths(target):
        notes.append(
            f"widths differ ({widths}): the rules know depth alone, and the best rate also falls "
            "with width; use the rule 'measured' or models of one width."
        )
    if source.units and source.total == target.total:
        notes.append(
            f"both models have {source.total} units, so no rate changes: if one is deeper, units= counts your own "
            "blocks."
        )
    return notes
