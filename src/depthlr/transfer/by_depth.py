"""Rules that look at effective depths alone: the paper's law, its peers, and the exponent of the user's own sweep."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from depthlr.errors import DepthlrError
from depthlr.law.carried_rate import ADAPTIVE, AS_INIT, OTHER_INIT, UNSEEN, CarriedRate, finite_rate
from depthlr.law.fit import Fit
from depthlr.law.rules import RULES, DepthRule, Family, pathsum_transfer
from depthlr.trace.depth import TIED, Depth
from depthlr.transfer.optimizer import family_of, optimizer_notes, optimizer_shares
from depthlr.transfer.recipe import Counted, Recipe, count_depths, first_model

WORST_FIRST = (OTHER_INIT, UNSEEN, AS_INIT)  # two models count as the worse one
MULTIPLIED = (
    "the branches are multiplied by {:.3g} in the source and by {:.3g} in the target. Such a forward multiplier (Depth-"
    "muP, CompleteP) makes up for depth itself, and the law on top of it would lower the rate twice: use the rule "
    "'depth-mup', 'completep' or 'measured'."
)


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
        return self.carry_counted(rate, source.optimizer, count_depths(source, target, seed=self.seed))

    def carry_counted(self, rate: float, optimizer: Any, counted: Sequence[Counted]) -> CarriedRate:
        """Carry the rate between models whose depths are counted.

        Args:
            rate: The rate tuned on the source.
            optimizer: That of the source.
            counted: Source and target, from `count_depths`.
        """
        rule, model = self.rule, first_model(counted)
        source_depth, target_depth = (one.depth for one in counted)
        multipliers = source_depth.multiplier, target_depth.multiplier
        if rule.refuses_multiplier and not math.isclose(*multipliers):
            raise DepthlrError(MULTIPLIED.format(*multipliers))
        family = self._family(optimizer, model)
        new_rate = _new_rate(rule, rate, source_depth, target_depth, family)
        properties = {*source_depth.norms, *target_depth.norms}
        if family == "adam":
            properties.add(ADAPTIVE)
        violations = _depth_notes(source_depth, target_depth, (TIED,) if rule.allows_tied else ())
        initialization = min((one.initialization for one in counted), key=WORST_FIRST.index)
        carried = rule.carried_rate(
            rate,
            new_rate,
            source_depth.total,
            target_depth.total,
            violations=violations,
            properties=properties,
            initialization=initialization,
        )
        notes = optimizer_notes(new_rate, optimizer_shares(optimizer, model))
        return replace(carried, notes=(*carried.notes, *notes))

    def _family(self, optimizer: Any, model: nn.Module | None) -> Family:
        if self.family is not None:
            return self.family
        try:
            return family_of(optimizer, model)
        except DepthlrError:  # another library's optimizer, or a factory that cannot make one for this model
            if self.rule.exponent_sgd != self.rule.exponent_adam or self.rule.counts == "paths":
                raise
            return "sgd"  # both exponents are equal, and nothing is said of an optimizer that is not known


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
        notes = optimizer_notes(new_rate, optimizer_shares(source.optimizer, first_model(counted)))
        carried = CarriedRate(new_rate, "fitted", *depths, factor, assumes, tuple(notes))
        if not self.fit.bounded:
            return carried
        low, high = sorted(rate * ratio**slope for slope in self.fit.interval)
        return replace(carried, low=low, high=high, coverage=self.fit.level)
