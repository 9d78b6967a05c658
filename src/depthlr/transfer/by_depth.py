"""Rules that look at effective depths alone: the paper's law, its peers, and the exponent of the user's own sweep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from depthlr.errors import DepthlrError
from depthlr.law.carried_rate import ADAPTIVE, AS_INIT, OTHER_INIT, UNSEEN, CarriedRate, finite_rate, run_properties
from depthlr.law.fit import Fit
from depthlr.law.rules import RULES, DepthRule, Family, pathsum_transfer
from depthlr.trace.depth import TIED, Depth
from depthlr.transfer.recipe import Counted, Recipe, count_depths, family_of, rates_of, with_recipe_notes

WORST_FIRST = (OTHER_INIT, UNSEEN, AS_INIT)  # two models count as the worse one
SAME_DEPTH = "nothing to carry: both models have {} units; if one is deeper, units= counts your own blocks."
MULTIPLIED = "the branches are multiplied by {:.3g} in the source and by {:.3g} in the target, {}: use the rule {!r}."
TWICE = "which makes up for depth itself, and the rule {!r} on top of it would lower the rate twice"
OTHER_POWER = "and the rule {!r} holds for multipliers that change as (residual updates)^{:g}"
SAME_MULTIPLIER = 0.05  # relative error of a multiplier that still fits a rule


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
        return self.carry_counted(rate, source, target, count_depths(source, target, seed=self.seed))

    def carry_counted(self, rate: float, source: Recipe, target: Recipe, counted: Sequence[Counted]) -> CarriedRate:
        """Carry the rate between models whose depths are counted.

        Args:
            rate: The rate tuned on the source.
            source: The recipe that was tuned.
            target: The recipe that needs a rate.
            counted: What `count_depths` says of both.
        """
        rule = self.rule
        source_depth, target_depth = (one.depth for one in counted)
        family = self._family(source.optimizer, next((one.model for one in counted if one.model is not None), None))
        violations = _depth_notes(rule, source_depth, target_depth)
        violations += _multiplier_notes(rule, source_depth, target_depth, family)
        new_rate = _new_rate(rule, rate, source_depth, target_depth, family)
        initializations = [one.initialization for one in counted]
        properties = {*source_depth.norms, *target_depth.norms, *initializations}
        properties |= run_properties(source.schedule or target.schedule, source.steps)
        properties |= run_properties(target.schedule or source.schedule, target.steps)
        if family == "adam":
            properties.add(ADAPTIVE)
        carried = rule.carried_rate(
            rate,
            new_rate,
            source_depth.total,
            target_depth.total,
            violations=violations,
            properties=properties,
            initialization=min(initializations, key=WORST_FIRST.index),
        )
        if source_depth.units and source_depth.total == target_depth.total:
            carried = replace(carried, notes=(*carried.notes, SAME_DEPTH.format(source_depth.total)))
        return _with_notes(carried, source, target, counted)

    def _family(self, optimizer: Any, model: nn.Module | None) -> Family:
        if self.family is not None:
            return self.family
        try:
            return family_of(optimizer, model)
        except DepthlrError:  # another library's optimizer, or a factory that makes none without its model
            if self.rule.exponent_sgd != self.rule.exponent_adam or self.rule.counts == "paths":
                raise
            return "sgd"  # both exponents are equal, and nothing is said of an optimizer that is not known


def _with_notes(carried: CarriedRate, source: Recipe, target: Recipe, counted: Sequence[Counted]) -> CarriedRate:
    rates = [rates_of(recipe, one.model) for recipe, one in zip((source, target), counted, strict=True)]
    return with_recipe_notes(carried, source, target, rates)


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


def _multiplier_notes(rule: DepthRule, source: Depth, target: Depth, family: Family) -> list[str]:
    """What speaks against a rule if the branches are multiplied by other numbers than it is for.

    Raises:
        DepthlrError: The rule is for no such multiplier at all.
    """
    if rule.multiplier_power is None or not (source.residual and target.residual):
        return []

    def fits(power: float) -> bool:
        wanted = (target.residual / source.residual) ** power
        return math.isclose(target.multiplier / source.multiplier, wanted, rel_tol=SAME_MULTIPLIER)

    if fits(rule.multiplier_power):
        return []
    able = (one for one in RULES.values() if one.multiplier_power is not None and one.exponent(family) is not None)
    better = next((one.name for one in able if fits(one.multiplier_power or 0.0)), "measured")
    reason = (OTHER_POWER if rule.multiplier_power else TWICE).format(rule.name, rule.multiplier_power)
    sentence = MULTIPLIED.format(source.multiplier, target.multiplier, reason, better)
    if rule.multiplier_power == 0:
        raise DepthlrError(sentence)
    return [sentence]


def _depth_notes(rule: DepthRule, source: Depth, target: Depth) -> list[str]:
    """What the depths say against a rule."""
    flags = dict.fromkeys(source.flagged + target.flagged)
    notes = [flag.sentence for flag in flags if rule.needs_untied or flag.kind != TIED]
    if widths := source.other_widths(target):
        notes.append(
            f"widths differ ({widths}): the rules know depth alone, and the best rate also falls "
            "with width; use the rule 'measured' or models of one width."
        )
    return notes


def Law() -> ByDepth:
    """The paper's rule, rate ~ depth^(-3/2): a function that returns a `ByDepth`."""
    return ByDepth(RULES["law"])


def Constant() -> ByDepth:
    """One exponent for every recipe, rate ~ depth^(-0.2): a function that returns a `ByDepth`.

    The exponent was fitted on real training, RealBench's design recipes.
    """
    return ByDepth(RULES["constant"])


@dataclass(frozen=True)
class Fitted:
    """The exponent of the user's own sweep over effective depth, with its interval.

    Args:
        fit: The line through tuned rates, as `Results.fit(over="depth")` returns it.
    """

    fit: Fit

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        """Carry the rate along the slope of the fitted line. Arguments are those of `Rule.carry`."""
        counted = count_depths(source, target)
        depths = counted[0].depth.total, counted[1].depth.total
        ratio = depths[1] / depths[0]
        factor = ratio**self.fit.slope
        new_rate = finite_rate(rate * factor, f"depth {depths[0]:g}", f"depth {depths[1]:g}")
        assumes = f"Tuned rates go on along the fitted line: rate ~ depth^({self.fit.slope:.2f})."
        carried = CarriedRate(new_rate, "fitted", *depths, factor, assumes)
        if self.fit.bounded:
            low, high = sorted(rate * ratio**slope for slope in self.fit.interval)
            carried = replace(carried, low=low, high=high, coverage=self.fit.level)
        return _with_notes(carried, source, target, counted)
