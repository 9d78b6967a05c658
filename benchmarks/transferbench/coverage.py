"""Does the interval around a carried rate hold the optimum? Each task is asked with the errors of all the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.transferbench.scores import Pair
from scipy.stats import beta

LEVEL = 0.9


@dataclass(frozen=True)
class Coverage:
    """`share` is over all pairs; `low` and `high` are its 95 % binomial interval."""

    share: float
    low: float
    high: float
    width: float  # median half-width of the interval, in decades


def coverage(pairs: Sequence[Pair]) -> Coverage | None:
    """An interval of +- the 90 % quantile of the other tasks' |errors|; None with fewer than two tasks.

    The n(n-1) pairs of n sizes hold n-1 independent comparisons, so the binomial interval counts those.
    """
    tasks = sorted({pair.task for pair in pairs})
    if len(tasks) < 2:
        return None
    hits, widths, comparisons = 0, [], 0
    for task in tasks:
        width = float(np.quantile([abs(p.error) for p in pairs if p.task != task], LEVEL))
        own = [p for p in pairs if p.task == task]
        hits += sum(abs(p.error) <= width for p in own)
        comparisons += len({p.target for p in own}) - 1
        widths.append(width)
    share = hits / len(pairs)
    low, high = binomial_interval(share * comparisons, comparisons)
    return Coverage(share, low, high, float(np.median(widths)))


def binomial_interval(hits: float, trials: int) -> tuple[float, float]:
    """Clopper and Pearson's, 95 %."""
    low = float(beta.ppf(0.025, hits, trials - hits + 1)) if hits > 0 else 0.0
    high = float(beta.ppf(0.975, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high
