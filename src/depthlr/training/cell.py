"""A cell: one training run, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from depthlr.errors import DepthlrError, exit_text, kind_and_message

DIVERGENCE_CHECKS = 16  # how often a run is checked for divergence


@dataclass(frozen=True, order=True, slots=True)
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
    failure: str | None = None  # why there is no loss: the model raised, its process died, its time was up
    loss: float | None = None  # what the cell is judged by, where the study's metric does not say
    is_general: bool = False  # the failure is one of the study, not of this cell: the others will fail like it


def outcome_or_failure(train: Callable[[], Outcome]) -> Outcome:
    """What a run returns, or a failed outcome with the reason if the model, its loss or its data raise or exit.

    Args:
        train: The run.
    """
    start = time.monotonic()
    try:
        return train()
    except SystemExit as error:
        reason = exit_text(error)
    except Exception as error:
        reason = str(error).rstrip(".") if isinstance(error, DepthlrError) else kind_and_message(error)
    return failed_outcome(reason, time.monotonic() - start)


def failed_outcome(reason: str, seconds: float, *, is_general: bool = False) -> Outcome:
    """The outcome of a cell that could not be trained. It has `diverged` set, as it has no loss.

    Args:
        reason: One sentence.
        seconds: The time that was spent.
        is_general: The failure is one of the study, such as a wrong key, so the other cells will fail like this one.
    """
    return Outcome(np.zeros(0, np.float32), seconds, True, failure=reason, is_general=is_general)


BLOW_UP = 1e3  # a loss so many times the first one, or so large where that is below 1, will not come back


def has_diverged(losses: NDArray[np.float32]) -> bool:
    """Is a loss not finite, or did it grow beyond hope?

    Args:
        losses: The losses of the steps so far, at least one.
    """
    hopeless = BLOW_UP * max(1.0, float(losses[0]))  # may be beyond single precision
    return not bool((np.isfinite(losses) & (losses.astype(np.float64) <= hopeless)).all())
