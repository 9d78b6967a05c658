"""Paired bootstrap over tasks: is one rule better than another on tasks like these?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

RESAMPLES = 10_000


def gain(ours: Mapping[str, float], theirs: Mapping[str, float]) -> tuple[float, float, float] | None:
    """Mean over shared tasks of (their error - our error), with its 95 % interval; None with fewer than two tasks."""
    shared = sorted(set(ours) & set(theirs))
    if len(shared) < 2:
        return None
    differences = np.array([theirs[task] - ours[task] for task in shared])
    picks = np.random.default_rng(0).integers(len(shared), size=(RESAMPLES, len(shared)))
    low, high = np.quantile(differences[picks].mean(axis=1), [0.025, 0.975])
    return float(differences.mean()), float(low), float(high)
