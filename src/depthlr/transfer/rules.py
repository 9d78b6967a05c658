"""Carry a rate from a tuned recipe to another one, by a rule: an object with one method, `carry`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.law.carried_rate import OTHER_INIT, CarriedRate, decays
from depthlr.law.rules import DepthRule, Family, recommended_rule, rule_named
from depthlr.trace.depth import Units
from depthlr.trace.interface import LossFn
from depthlr.transfer.by_depth import ByDepth, Constant, Fitted, Law
from depthlr.transfer.measured import AmMup, Measured, can_measure
from depthlr.transfer.recipe import Energies, ModelLike, Recipe, count_depths

__all__ = ["AmMup", "ByDepth", "Constant", "Fitted", "Law", "Measured", "Recipe", "Rule", "make_rule", "transfer_rate"]

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

    Only the interval of 'constant' is from long runs: all others are from runs of 100 to 200 steps. In longer runs
    with warm-up and decay, rates fall much more slowly with depth. For a long run give steps or schedule: the rule
    is then 'constant'.

    Args:
        rate: The rate tuned on the source.
        source: A depth, a model, a function that builds it, or a `Recipe`. With the rule "am-mup" also energies that
            were measured before.
        target: The same. Functions that build the models let `Measured` average over initializations. A model beside a
            recipe is trained by that recipe.
        example: An input on which a model's depth is counted. None takes the first of `batches`.
        rule: A rule, its name, or a `DepthRule`. None takes the one that `recommended_rule` names for the recipes, and
            for how the models are initialized.
        batches: What the step is measured on, as `update_energy` takes them.
        loss_fn: Takes output and target. None takes the model's own loss.
        optimizer: A name, or a factory that takes the model. None is "sgd".
        schedule: How the rate changes during the run: "constant" if it does not, else any other name, such as
            "warmup-cosine". None if that is not known.
        steps: How many steps the run has. None if that is not known.
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
    entries = _given(batches=batches, loss_fn=loss_fn, optimizer=optimizer, example=example, units=units)
    entries |= _given(schedule=schedule, steps=steps)
    if entries and isinstance(source, Recipe) and isinstance(target, Recipe):
        raise DepthlrError(TOLD_BY_RECIPES.format(_arguments(entries)))
    options = _given(family=family, aggregate=aggregate, seeds=seeds, seed=seed or None)  # 0 is that of every rule
    if isinstance(rule, DepthRule):
        rule = ByDepth(rule)
    if options and rule is not None and not isinstance(rule, str):
        raise DepthlrError(TOLD_BY_RULE.format(_arguments(options)))
    source, target = _as_recipe(source, target, entries), _as_recipe(target, source, entries)
    if rule is None:
        return _carry_by_default(rate, source, target, options)
    if isinstance(rule, str):
        rule = make_rule(rule, **options)
    return rule.carry(rate, source, target)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _as_recipe(given: Any, other: Any, entries: dict[str, Any]) -> Recipe:
    """A recipe as it is, and a model as the recipe beside it with this model, or as a recipe of these entries."""
    if isinstance(given, Recipe):
        return given
    if isinstance(other, Recipe):
        return other.replace(build=given, **entries)
    return Recipe(given, **entries)


def _carry_by_default(rate: float, source: Recipe, target: Recipe, options: dict[str, Any]) -> CarriedRate:
    """Carry by the rule that `recommended_rule` names, with those of the options that it takes."""
    if any(isinstance(recipe.build, Energies) for recipe in (source, target)):
        raise DepthlrError(MEASURED_ENERGIES)
    schedule = source.schedule if decays(source.schedule) else target.schedule
    steps = max(source.steps or 0, target.steps or 0)
    name = recommended_rule(schedule=schedule, steps=steps, measurable=can_measure(source, target))
    if name != "law":
        return make_rule(name, **_options_of(name, options)).carry(rate, source, target)
    # A short run without batches: how the models are initialized decides between `law` and `constant`.
    counted = count_depths(source, target, seed=options.get("seed", 0))
    name = recommended_rule(own_init=any(one.initialization == OTHER_INIT for one in counted))
    rule = ByDepth(rule_named(name), **_options_of(name, options))
    return rule.carry_counted(rate, source, target, counted)


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


def _arguments(names: Iterable[str]) -> str:
    return ", ".join(f"{name}=" for name in names)
