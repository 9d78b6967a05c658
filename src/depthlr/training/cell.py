"""A cell: one training run, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, order=True)
class Cell:
    """One run: the model at a size (its layers or blocks), a seed, a rate."""

    size: int
    seed: int
    rate: float


@dataclass(frozen=True)
class Evaluation:
    """The held-out data after `steps` steps: mean loss, and accuracy where the model predicts classes."""

    steps: int
    loss: float
    accuracy: float | None


@dataclass(frozen=True, eq=False)
class Outcome:
    """The training loss of every step; a run that diverged may have stopped early, and is then not evaluated."""

    losses: NDArray[np.float32]  # (steps,)
    seconds: float
    diverged: bool
    evaluations: tuple[Evaluation, ...] = ()


BLOW_UP = 1e3  # a loss so many times the first one, or so large where that is below 1, will not come back


def has_diverged(losses: NDArray[np.float32]) -> bool:
    """Is a loss not finite, or did it grow beyond hope?"""
    hopeless = BLOW_UP * max(1.0, float(losses[0]))  # may be beyond single precision
    return not bool((np.isfinite(losses) & (losses.astype(np.float64) <= hopeless)).all())


class Runner(Protocol):
    """Trains cells of one size; `close` gives back what it holds."""

    def train(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
        """Outcomes as they come, in any order."""

    def close(self) -> None: ...
