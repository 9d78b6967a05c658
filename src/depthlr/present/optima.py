"""A study's tuned rates by depth, and what the rules make of one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from depthlr.energy.persistent import PersistentEnergy
from depthlr.errors import DepthlrError
from depthlr.law.aggregate import geometric
from depthlr.law.rules import carry
from depthlr.study.results import Over, Results
from depthlr.transfer.rules import Energies, family_of

Predict = Callable[[float, float], float]  # the rate at a target depth, from the tuned one at a source depth
Errors = dict[str, dict[tuple[float, float], float]]  # log10(predicted / tuned) by rule, source and target
MEDIAN_OF_NORMAL = 0.6745  # median of |z| for a standard normal z


@dataclass(frozen=True)
class Optima:
    """The seeds' optima at one depth; those at the edge of the range are bounds, and no fit takes them."""

    inside: tuple[float, ...]
    at_edge: tuple[float, ...]

    @property
    def rate(self) -> float | None:
        """The tuned rate: the geometric mean of the seeds' optima inside the range; None where all are bounds."""
        return geometric(self.inside) if self.inside else None


def optima_by_depth(results: Results, over: Over = "depth") -> dict[float, Optima]:
    """The seeds' optima at every effective depth, or size, that has one."""
    places = places_of(results, over)
    found: dict[float, tuple[list[float], list[float]]] = {}
    for curve in results.curves:
        if curve.optimum is not None:
            inside, at_edge = found.setdefault(places[curve.size], ([], []))
            (at_edge if curve.optimum.at_edge else inside).append(curve.optimum.rate)
    return {place: Optima(*map(tuple, found[place])) for place in sorted(found)}


def tuned_by_depth(results: Results, over: Over = "depth") -> dict[float, float]:
    """The tuned rate at every depth that has one."""
    rates = {depth: found.rate for depth, found in optima_by_depth(results, over).items()}
    return {depth: rate for depth, rate in rates.items() if rate is not None}


def places_of(results: Results, over: Over) -> Mapping[int, float]:
    """Where each size that was run stands on the depth axis."""
    if over == "size":
        return {size: size for size in results.study.model.sizes}
    if over != "depth":
        raise DepthlrError(f"A study is plotted over size or depth, not {over!r}: choose one of them.")
    if results.depths is None or not {curve.size for curve in results.curves} <= set(results.depths):
        raise DepthlrError("The effective depth of some size is not known: plot over size.")
    return results.depths


def predictions(
    results: Results,
    rules: Sequence[str] = ("copy", "law"),
    energies: Mapping[float, Energies | PersistentEnergy] | None = None,
    over: Over = "depth",
) -> dict[str, Predict]:
    """Each rule as a function of two depths, and the one that the energies of the models at those depths stand for.

    The source must have a tuned rate; the target need not.
    """
    tuned, depths = tuned_by_depth(results, over), optima_by_depth(results, over)
    family = family_of(results.study.training.optimizer)

    def by_rule(rule: str) -> Predict:
        return lambda source, target: carry(rule, tuned[source], source, target, family)

    found = {rule: by_rule(rule) for rule in rules}
    if energies is not None:
        missing = sorted(set(depths) - set(energies))
        if missing:
            raise DepthlrError(f"There is no energy of depth {missing[0]:g}: measure the models of every depth.")
        rates = {depth: energies[depth].rate for depth in depths}
        rule = "measured" if isinstance(next(iter(energies.values())), PersistentEnergy) else "am-mup"
        found[rule] = lambda source, target: tuned[source] * rates[target] / rates[source]
    return found


def errors_by_rule(
    results: Results,
    rules: Sequence[str] = ("copy", "law"),
    energies: Mapping[float, Energies | PersistentEnergy] | None = None,
    over: Over = "depth",
) -> Errors:
    """How far each rule misses the tuned rate, in decades, from every depth to every deeper one."""
    tuned = tuned_by_depth(results, over)
    return {
        rule: {(a, b): math.log10(predict(a, b) / tuned[b]) for a in tuned for b in tuned if a < b}
        for rule, predict in predictions(results, rules, energies, over).items()
    }


def seed_floor(results: Results, over: Over = "depth") -> float | None:
    """The median error of a perfect rule, in decades: tuned rates are means of few seeds. None for single seeds.

    Both ends of a transfer scatter by sd / sqrt(seeds), and half of all normal errors exceed 0.67 of their deviation.
    """
    seeds = [found.inside for found in optima_by_depth(results, over).values() if len(found.inside) > 1]
    if not seeds:
        return None
    variance = fmean(stdev(map(math.log10, rates)) ** 2 / len(rates) for rates in seeds)
    return MEDIAN_OF_NORMAL * math.sqrt(2 * variance)
