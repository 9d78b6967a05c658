"""Does the interval around a rate hold the optimum? Each task is asked with the errors of all the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from experiments.transferbench.scores import Pair

CARRIED, SUGGESTED = 0.9, 0.8  # what the intervals of carried and of suggested rates claim


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
