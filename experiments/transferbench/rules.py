"""The rules that are compared: those of the library, and levels of what was measured, in decades of the rate.

A rule of the library is an object with `carry`, and is asked with recipes that hold what was measured (`recipe_of`). So
is a rule of one's own: `"half-power": library(HalfPower())` in `RULES` is a row in the table. Any other rule changes
the rate by the difference of two levels: log10 factor = level(target) - level(source). A rule whose level is the rate
itself (`absolute`) also suggests one with no source at all. None means that the rule prescribes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import fmean, median

from depthlr.energy.persistent import DrawnRate, rate_over_draws
from depthlr.errors import DepthlrError
from depthlr.law.rules import RULES as DEPTH_RULES
from depthlr.law.rules import DepthRule
from depthlr.trace.depth import Depth
from depthlr.trace.units import Unit
from depthlr.transfer import rules
from depthlr.transfer.recipe import MeasuredModel, Recipe
from depthlr.transfer.suggest import measured_rates
from experiments.transferbench.known import Measured, log10
from experiments.transferbench.measuring import Change, Step

Level = Callable[[Measured], float | None]
Cost = Callable[[Measured], float]

CHOSEN = "measured"  # the default rule: designed on dev and first, set before any test oracle was looked at
SUGGESTION = "suggest_rate"
SWEPT_SEEDS = 3  # the first initializations are those of the sweep's own cells


def no_level(measured: Measured) -> float | None:
    """Of a rule that suggests nothing without a source."""
    return None


def free(measured: Measured) -> float:
    """Counting depth takes no time to speak of."""
    return 0.0


@dataclass(frozen=True)
class Rule:
    level: Level = no_level
    library: rules.Rule | None = None  # carries; without it, levels are compared
    absolute: bool = False  # the level is the log10 rate itself
    carries: bool = True  # or only suggests: then its suggestion for the target counts, whatever the source
    cost: Cost = free  # seconds for one size
    own_models: bool = False  # judged on twins in its authors' parametrisation
    each_draw: bool = False  # judged on every initialization by itself
    peer: bool = False  # of others, not of ours


def factor(rule: Rule, source: Measured, target: Measured) -> float | None:
    """log10 of what the rate is multiplied by."""
    if rule.library is not None:
        try:
            return math.log10(rule.library.carry(1.0, recipe_of(source), recipe_of(target)).factor)
        except DepthlrError:  # it prescribes nothing for these models, or needs a measurement that failed
            return None
    before, after = rule.level(source), rule.level(target)
    return None if before is None or after is None else after - before


def recipe_of(measured: Measured) -> Recipe:
    """What a rule of the library may look at: the depth, and the measured rate if there is one."""
    kinds = ["plain"] * measured.plain + ["residual"] * measured.residual
    units = tuple(Unit(kind, "body", "", "", measured.width, place, place) for place, kind in enumerate(kinds))
    depth = Depth(measured.depth, measured.depth, units)
    rate = drawn_rate(measured)
    return Recipe(depth if rate is None else MeasuredModel(depth, rate), optimizer=measured.optimizer)


def library(rule: rules.Rule, *, own_models: bool = False) -> Rule:
    """A rule of the library, or of one's own, that looks at depths alone."""
    return Rule(library=rule, own_models=own_models, peer=True)


def by_depth(rule: DepthRule) -> Rule:
    """A rule of the literature."""
    return library(rules.ByDepth(rule), own_models=rule.counts == "updates")


def of_steps(log_rate: Callable[[Step], float | None], *, curvature: bool = False, swept: bool = False) -> Rule:
    """The median over initializations of a step's log10 rate, or with `swept` the mean over those that were swept."""

    def steps(measured: Measured) -> tuple[Step, ...]:
        return measured.steps[: SWEPT_SEEDS if swept else None]

    def level(measured: Measured) -> float | None:
        found = [log_rate(step) for step in steps(measured)]
        known = [one for one in found if one is not None]
        if 2 * len(known) <= len(found):
            return None
        return fmean(known) if swept else median(known)

    def cost(measured: Measured) -> float:
        return sum(s.seconds + curvature * s.curvature_seconds for s in steps(measured))

    return Rule(level, absolute=True, cost=cost)


def energy(of: Callable[[Step], float], *, swept: bool = False) -> Rule:
    """Energy is quadratic in the rate, so energy 1 is at the rate energy^(-1/2)."""

    def log_rate(step: Step) -> float | None:
        decades = log10(of(step))
        return None if decades is None else -0.5 * decades

    return of_steps(log_rate, swept=swept)


def drawn_rate(measured: Measured) -> DrawnRate | None:
    """As `depthlr.transfer_rate` has it, from these initializations."""
    try:
        return rate_over_draws([draw.found for draw in measured.persistent]) if measured.persistent else None
    except DepthlrError:  # no energy, or one that overflowed
        return None


def persistent_level(measured: Measured) -> float | None:
    """The rate of persistent energy 1, over initializations."""
    found = drawn_rate(measured)
    return None if found is None else found.decades + half_gain(measured)


def arithmetic_persistent(measured: Measured) -> float | None:
    """From the arithmetic mean of energies over initializations: the rule that `first` judged."""
    energies = [draw.found.energy for draw in measured.persistent]
    decades = log10(fmean(energies)) if energies else None
    return None if decades is None else -0.5 * decades + half_gain(measured)


def persistent_cost(measured: Measured) -> float:
    return sum(one.seconds for one in measured.persistent)


def half_gain(measured: Measured) -> float:
    """Momentum takes a steady drift 1/(1 - momentum) as far and hardly moves the stability limit: the middle fits."""
    return 0.5 * math.log10(1 - measured.momentum)


def suggestion(measured: Measured) -> float | None:
    """As `depthlr.suggest_rate` has it, from these initializations."""
    if not measured.persistent:
        return None
    falls = [-step.slope for step in measured.steps[: len(measured.persistent)]]
    try:
        basis, rates = measured_rates([(d.found, fall) for d, fall in zip(measured.persistent, falls, strict=True)])
        decades = fmean(math.log10(rate) for rate in rates)
    except DepthlrError:  # it would say why
        return None
    return basis.calibrations[measured.schedule].decades + decades + half_gain(measured)


def suggestion_cost(measured: Measured) -> float:
    return sum(draw.seconds for draw in measured.persistent) + sum(step.seconds for step in measured.steps)


def newton(bend: Callable[[Step], float], *, curvature: bool) -> Rule:
    """The rate of the least loss along the step, to second order; d'Gd comes with the changes, d'Hd costs extra."""
    return of_steps(lambda s: log10(-s.slope / bend(s)) if bend(s) else None, curvature=curvature)


def range_test(name: str) -> Rule:
    """The median over seeds of what a range test suggests."""

    def level(measured: Measured) -> float | None:
        rates = [one.rate for one in measured.suggestions.get(name, ()) if one.rate]
        return math.log10(median(rates)) if rates else None

    def cost(measured: Measured) -> float:
        return median(one.seconds for one in measured.suggestions[name])  # one run is what people do

    return Rule(level, absolute=True, carries=False, cost=cost, peer=True)


def with_momentum(rule: Rule) -> Rule:
    """Steps that agree add up to 1/(1 - momentum) of them."""

    def level(measured: Measured) -> float | None:
        found = rule.level(measured)
        return None if found is None else found + math.log10(1 - measured.momentum)

    return Rule(level, absolute=True, cost=rule.cost)


def geometric(values: Iterable[float]) -> float:
    found = list(values)
    return math.exp(fmean(math.log(value) for value in found)) if min(found) > 0 else 0.0


def halved(step: Step) -> float:
    """The readout counts as much as all units together: relative energies, geometric means."""
    return math.sqrt(geometric(unit.relative for unit in step.hidden) * step.readout.relative)


def everything(step: Step) -> tuple[Change, ...]:
    return (*step.hidden, step.readout)


MEASURED = Rule(persistent_level, rules.Measured(), absolute=True, cost=persistent_cost)
RULES: dict[str, Rule] = {
    "copy": by_depth(DEPTH_RULES["copy"]),
    "law": by_depth(DEPTH_RULES["law"]),
    "pathsum": by_depth(DEPTH_RULES["pathsum"]),
    "depth-mup": by_depth(DEPTH_RULES["depth-mup"]),
    "completep": by_depth(DEPTH_RULES["completep"]),
    "range test (pytorch-lr-finder)": range_test("pytorch-lr-finder"),
    "range test (Lightning)": range_test("lightning"),
    "mean energy": energy(lambda s: fmean(u.energy for u in s.hidden)),
    "readout energy": energy(lambda s: s.readout.energy),
    "relative energy": energy(lambda s: geometric(u.relative for u in s.hidden)),
    "persistent energy, arithmetic mean": Rule(arithmetic_persistent, absolute=True, cost=persistent_cost),
    CHOSEN: MEASURED,
    "measured, one initialization": replace(MEASURED, each_draw=True),
    SUGGESTION: Rule(suggestion, absolute=True, carries=False, cost=suggestion_cost, each_draw=True),
    "suggest_rate, eight initializations": Rule(suggestion, absolute=True, carries=False, cost=suggestion_cost),
}

# On trial: designed and compared on dev and first alone.
CANDIDATES: dict[str, Rule] = {
    "geometric energy": energy(lambda s: geometric(u.energy for u in s.hidden)),
    "median energy": energy(lambda s: median(u.energy for u in s.hidden)),
    "max energy": energy(lambda s: max(u.energy for u in everything(s))),
    "mean, coherent": energy(lambda s: fmean(u.coherent for u in s.hidden)),
    "max, coherent": energy(lambda s: max(u.coherent for u in everything(s))),
    "max, momentum": with_momentum(energy(lambda s: max(u.energy for u in everything(s)))),
    "relative, mean": energy(lambda s: fmean(u.relative for u in s.hidden)),
    "relative, median": energy(lambda s: median(u.relative for u in s.hidden)),
    "relative, max": energy(lambda s: max(u.relative for u in s.hidden)),
    "relative, with readout": energy(lambda s: geometric(u.relative for u in everything(s))),
    "relative, coherent": energy(lambda s: geometric(u.coherent / u.mean_square for u in s.hidden)),
    "relative, the very initializations": energy(lambda s: geometric(u.relative for u in s.hidden), swept=True),
    "readout relative": energy(lambda s: s.readout.relative),
    "half readout": energy(halved),
    "readout, coherent": energy(lambda s: s.readout.coherent),
    "readout, momentum": with_momentum(energy(lambda s: s.readout.energy)),
    "curvature": newton(lambda s: s.curvature, curvature=True),
    "measured, without the law": replace(MEASURED, library=None),
    "Gauss-Newton": newton(lambda s: s.gauss_newton, curvature=False),
}
