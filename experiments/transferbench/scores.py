"""How far carried rates lie from the oracle's, what that costs in loss, and how sure both are.

A rule's errors are one entry a source-target pair. Rules are compared by a paired bootstrap over tasks. An interval is
judged by how often it holds the optimum, each task asked with the errors of all the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from statistics import median

import numpy as np
from scipy.stats import beta

from experiments.transferbench.known import Measured, Oracle
from experiments.transferbench.rules import Rule, factor

# Three seeds' mean has a third of one seed's variance about the truth; one seed about the mean of two has 1 + 1/2.
PERFECT = math.sqrt((1 / 3) / (3 / 2))
RESAMPLES = 10_000
FEWEST = 4  # tasks for an interval: resamples of fewer are mostly one task over and over
CARRIED, SUGGESTED = 0.9, 0.8  # what the intervals of carried and of suggested rates claim


@dataclass(frozen=True)
class Known:
    """A task with its oracle and what was measured of it; `name` is the twin's where it is one."""

    name: str
    oracle: Oracle
    measured: Mapping[int, Measured]

    @property
    def sizes(self) -> list[int]:
        """Sizes that were measured and whose optima lie inside the range."""
        return [size for size in self.oracle.curves if size in self.measured and self.oracle.rate(size) is not None]

    def each_draw(self) -> Iterator[Known]:
        """The same as if one initialization alone had been measured, for each of them."""
        draws = min((min(len(one.persistent), len(one.steps)) for one in self.measured.values()), default=0)
        for place in range(draws):
            alone = {
                size: replace(one, persistent=(one.persistent[place],), steps=(one.steps[place],))
                for size, one in self.measured.items()
            }
            yield replace(self, measured=alone)


@dataclass(frozen=True)
class Pair:
    """A rate carried from one size to another; the error is in decades."""

    task: str
    source: int
    target: int
    error: float
    regret: float
    bound: bool  # the regret is at least that
    seconds: float = 0.0


def carried(rule: Rule, known: Known) -> Iterator[Pair]:
    """Every ordered pair of sizes for which the rule says something."""
    for source, target in permutations(known.sizes, 2):
        here, there = known.measured[source], known.measured[target]
        moved = factor(rule, here, there) if rule.carries else rule.level(there)
        if moved is None:
            continue
        rate = _best(known.oracle, source) + moved if rule.carries else moved
        seconds = rule.cost(there) + (rule.cost(here) if rule.carries else 0.0)
        error = rate - _best(known.oracle, target)
        yield Pair(known.name, source, target, error, *known.oracle.regret(target, rate), seconds)


def suggested(rule: Rule, known: Known) -> Iterator[float]:
    """Errors of the rates that a rule suggests with no source, one a size."""
    for size in known.sizes if rule.absolute else ():
        level = rule.level(known.measured[size])
        if level is not None:
            yield level - _best(known.oracle, size)


def floor(known: Known) -> Iterator[Pair]:
    """How well optima are known: their change over one part of the seeds, judged by the other part.

    Each seed in turn is judged by the others and judges them; a perfect rule, judged by all, errs by `PERFECT` of it.
    """
    oracle = known.oracle
    for source, target in permutations(known.sizes, 2):
        seeds = list(oracle.curves[target])
        for alone in seeds if len(seeds) > 1 else ():
            rest = [seed for seed in seeds if seed != alone]
            for rule, judge in (([alone], rest), (rest, [alone])):
                moved = _best(oracle, target, rule) - _best(oracle, source, rule)
                rate = _best(oracle, source, judge) + moved
                error = rate - _best(oracle, target, judge)
                yield Pair(known.name, source, target, error, *oracle.regret(target, rate, judge))


def _best(oracle: Oracle, size: int, seeds: Collection[int] | None = None) -> float:
    """The best rate of a size that is known to have one."""
    found = oracle.rate(size, seeds)
    assert found is not None
    return found


def by_task(pairs: Iterable[Pair], of: Callable[[Pair], float] = lambda pair: abs(pair.error)) -> dict[str, float]:
    """The median of each task."""
    found: dict[str, list[float]] = {}
    for pair in pairs:
        found.setdefault(pair.task, []).append(of(pair))
    return {task: median(values) for task, values in found.items()}


def gain(ours: Mapping[str, float], theirs: Mapping[str, float]) -> tuple[float, float, float] | None:
    """Mean over shared tasks of (their error - our error), with its 95 % interval, NaN if tasks are few; None of none.

    Each resample's mean is taken in its own standard errors (bootstrap-t): of ten tasks, plain quantiles of the means
    would hold the truth too seldom.
    """
    shared = sorted(set(ours) & set(theirs))
    if not shared:
        return None
    differences = np.array([theirs[task] - ours[task] for task in shared])
    if len(shared) < FEWEST:
        return float(differences.mean()), np.nan, np.nan
    picks = np.random.default_rng(0).integers(len(shared), size=(RESAMPLES, len(shared)))
    drawn = differences[picks]
    mean, errors = differences.mean(), drawn.std(axis=1, ddof=1)
    usable = errors > 0  # or all of a resample is one task
    if not usable.any():
        return float(mean), float(mean), float(mean)
    shifts = (drawn.mean(axis=1)[usable] - mean) / errors[usable]
    high, low = mean - differences.std(ddof=1) * np.quantile(shifts, [0.025, 0.975])
    return float(mean), float(low), float(high)


@dataclass(frozen=True)
class Coverage:
    """`share` is over all errors; `low` and `high` are its 95 % binomial interval."""

    share: float
    low: float
    high: float
    width: float  # median half-width of the interval, in decades


def coverage(
    errors: Mapping[str, Sequence[float]], comparisons: Mapping[str, int], level: float, *, centred: bool = False
) -> Coverage | None:
    """An interval of +- that quantile of the other tasks' |errors|; None with fewer than two tasks.

    `comparisons` says how many errors of a task are independent: the n(n-1) pairs of n sizes hold n-1. `centred` also
    takes the middle from the other tasks, as a rule with a calibrated constant does.
    """
    if len(errors) < 2:
        return None
    hits, widths = 0, []
    for task, own in errors.items():
        others = [np.asarray(found) for other, found in errors.items() if other != task]
        middle = float(np.median([np.median(found) for found in others])) if centred else 0.0
        width = float(np.quantile(np.abs(np.concatenate(others) - middle), level))
        hits += sum(abs(error - middle) <= width for error in own)
        widths.append(width)
    share = hits / sum(map(len, errors.values()))
    trials = sum(comparisons.values())
    low, high = binomial_interval(share * trials, trials)
    return Coverage(share, low, high, float(np.median(widths)))


def coverage_of_pairs(pairs: Sequence[Pair]) -> Coverage | None:
    """Of carried rates."""
    tasks = sorted({pair.task for pair in pairs})
    errors = {task: [pair.error for pair in pairs if pair.task == task] for task in tasks}
    targets = {task: {pair.target for pair in pairs if pair.task == task} for task in tasks}
    return coverage(errors, {task: len(found) - 1 for task, found in targets.items()}, CARRIED)


def binomial_interval(hits: float, trials: int) -> tuple[float, float]:
    """Clopper and Pearson's, 95 %."""
    low = float(beta.ppf(0.025, hits, trials - hits + 1)) if hits > 0 else 0.0
    high = float(beta.ppf(0.975, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high
