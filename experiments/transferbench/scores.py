"""How far carried rates lie from the oracle's, and what that costs in loss: one entry a source-target pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from statistics import median

from experiments.transferbench.measured import Measured
from experiments.transferbench.oracle import Oracle
from experiments.transferbench.rules import Rule, factor

# Three seeds' mean has a third of one seed's variance about the truth; one seed about the mean of two has 1 + 1/2.
PERFECT = math.sqrt((1 / 3) / (3 / 2))


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
