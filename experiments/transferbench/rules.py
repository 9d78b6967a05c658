"""Rules as pure functions of what was measured: a level for each size, in decades of the rate.

A carried rate changes by the difference of two levels: log10 factor = level(target) - level(source); the default rule
also weighs in the law. A rule whose level is the rate itself (`absolute`) also suggests one with no source at all. None
means that the rule prescribes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean, median

from depthlr.energy.persistent import DrawnRate, rate_over_draws
from depthlr.errors import DepthlrError
from depthlr.law.rules import log_pathsum, rule_named
from depthlr.transfer.measured import Measured as MeasuredRule
from depthlr.transfer.suggest import measured_rates
from experiments.transferbench.measured import Measured, log10
from experiments.transferbench.step import Change, Step

Level = Callable[[Measured], float | None]
Cost = Callable[[Measured], float]

CHOSEN = "measured"  # the default rule: designed on dev and first, set before any test oracle was looked at
SUGGESTION = "suggest_rate"
SWEPT_SEEDS = 3  # the first initialisations are those of the sweep's own cells


def free(measured: Measured) -> float:
    """Counting depth takes no time to speak of."""
    return 0.0


@dataclass(frozen=True)
class Rule:
    level: Level
    absolute: bool = False  # the level is the log10 rate itself
    carries: bool = True  # or only suggests: then its suggestion for the target counts, whatever the source
    cost: Cost = free  # seconds for one size
    own_models: bool = False  # judged on twins in its authors' parametrisation
    each_draw: bool = False  # judged on every initialisation by itself
    over_draws: Callable[[Measured], DrawnRate | None] | None = None  # it leans on the law as far as draws scatter
    peer: bool = False  # of others, not of ours


def factor(rule: Rule, source: Measured, target: Measured) -> float | None:
    """log10 of what the rate is multiplied by."""
    if rule.over_draws is not None:
        found, wanted = rule.over_draws(source), rule.over_draws(target)
        if found is None or wanted is None:
            return None
        one_width = source.width == target.width  # every task's models have one width each, so no sets to compare
        return MeasuredRule.change(found, wanted, source.depth, target.depth, one_width=one_width).decades
    here, there = rule.level(source), rule.level(target)
    return None if here is None or there is None else there - here


def power(name: str) -> Rule:
    """A rule of the literature that is a power of the depth."""
    rule = rule_named(name)

    def level(measured: Measured) -> float | None:
        exponent = rule.exponent(measured.family)
        depth = measured.residual if rule.over_updates else measured.depth
        return None if exponent is None or not depth else exponent * math.log10(depth)

    return Rule(level, own_models=rule.over_updates, peer=True)


def pathsum(measured: Measured) -> float | None:
    """Chen 2024, of SGD alone."""
    if measured.family != "sgd":
        return None
    return -0.5 * log_pathsum(plain=measured.plain, residual=measured.residual) / math.log(10)


def of_steps(log_rate: Callable[[Step], float | None], *, curvature: bool = False, swept: bool = False) -> Rule:
    """The median over initialisations of a step's log10 rate, or with `swept` the mean over those that were swept."""

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
    """As `depthlr.transfer_rate` has it, from these initialisations."""
    try:
        return rate_over_draws([draw.found for draw in measured.persistent]) if measured.persistent else None
    except DepthlrError:  # no energy, or one that overflowed
        return None


def of_persistent(*, each_draw: bool = False, leans: bool = True) -> Rule:
    """The default rule, from all initialisations, or from each and then without the law; or ever without it."""

    def level(measured: Measured) -> float | None:
        found = drawn_rate(measured)
        return None if found is None else found.decades + half_gain(measured)

    over_draws = drawn_rate if leans else None
    return Rule(level, absolute=True, cost=persistent_cost, each_draw=each_draw, over_draws=over_draws)


def arithmetic_persistent(measured: Measured) -> float | None:
    """From the arithmetic mean of energies over initialisations: the rule that `first` judged."""
    energies = [draw.found.energy for draw in measured.persistent]
    decades = log10(fmean(energies)) if energies else None
    return None if decades is None else -0.5 * decades + half_gain(measured)


def persistent_cost(measured: Measured) -> float:
    return sum(one.seconds for one in measured.persistent)


def half_gain(measured: Measured) -> float:
    """Momentum takes a steady drift 1/(1 - momentum) as far and hardly moves the stability limit: the middle fits."""
    return 0.5 * math.log10(1 - measured.momentum)


def suggestion(measured: Measured) -> float | None:
    """As `depthlr.suggest_rate` has it, from these initialisations."""
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


RULES: dict[str, Rule] = {
    "copy": power("copy"),
    "law": power("law"),
    "pathsum": Rule(pathsum, peer=True),
    "depth-mup": power("depth-mup"),
    "completep": power("completep"),
    "range test (pytorch-lr-finder)": range_test("pytorch-lr-finder"),
    "range test (Lightning)": range_test("lightning"),
    "mean energy": energy(lambda s: fmean(u.energy for u in s.hidden)),
    "readout energy": energy(lambda s: s.readout.energy),
    "relative energy": energy(lambda s: geometric(u.relative for u in s.hidden)),
    "persistent energy, arithmetic mean": Rule(arithmetic_persistent, absolute=True, cost=persistent_cost),
    CHOSEN: of_persistent(),
    "measured, one draw": of_persistent(each_draw=True),
    SUGGESTION: Rule(suggestion, absolute=True, carries=False, cost=suggestion_cost, each_draw=True),
    "suggest_rate, eight draws": Rule(suggestion, absolute=True, carries=False, cost=suggestion_cost),
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
    "relative, the very initialisations": energy(lambda s: geometric(u.relative for u in s.hidden), swept=True),
    "readout relative": energy(lambda s: s.readout.relative),
    "half readout": energy(halved),
    "readout, coherent": energy(lambda s: s.readout.coherent),
    "readout, momentum": with_momentum(energy(lambda s: s.readout.energy)),
    "curvature": newton(lambda s: s.curvature, curvature=True),
    "measured, without the law": of_persistent(leans=False),
    "Gauss-Newton": newton(lambda s: s.gauss_newton, curvature=False),
}
