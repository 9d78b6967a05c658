"""Paired bootstrap over tasks: is one rule better than another on tasks like these?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

RESAMPLES = 10_000
FEWEST = 4  # tasks for an interval: resamples of fewer are mostly one task over and over


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
