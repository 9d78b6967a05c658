"""What a cell is judged by: the step from an outcome to its record, and the metrics that a record stores."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from depthlr.data.examples import Examples
from depthlr.errors import DepthlrError
from depthlr.study.data import epoch_steps
from depthlr.study.description import Study
from depthlr.study.record import Record
from depthlr.training.cell import Cell, Evaluation, Outcome

MOST_FAILURE = 500  # characters of a reason


@dataclass(frozen=True)
class Judge:
    """A study's metric, and of how many last steps it takes the mean loss; None for all steps."""

    metric: str
    last_steps: int | None = None

    def losses_that_count(self, losses: NDArray[np.float32], evaluations: Sequence[Evaluation]) -> list[float]:
        """The losses whose mean is what a cell is judged by.

        Args:
            losses: One per step.
            evaluations: On held-out data, in the order of the steps.
        """
        if self.metric == "validation":
            return [one.loss for one in evaluations[-1:]]
        counted: list[float] = (losses if self.last_steps is None else losses[-self.last_steps :]).tolist()
        return counted


def judge_of(study: Study, examples: Examples | None) -> Judge:
    """What judges the cells of a study.

    Args:
        study: The study.
        examples: What it trains on. The metric last_epoch needs to know how long an epoch is.
    """
    metric = study.training.metric
    if metric != "last_epoch":
        return Judge(metric)
    if examples is None:
        raise DepthlrError("The metric last_epoch needs to know how long an epoch is: pass the examples.")
    return Judge(metric, epoch_steps(study, examples))


def make_record(cell: Cell, outcome: Outcome, judge: Judge) -> Record:
    """The record of a finished cell. A loss that is not finite counts as diverged.

    Args:
        cell: The cell.
        outcome: What its executor returned. If it has a `loss`, the cell is judged by it.
        judge: What the cell is judged by otherwise.
    """
    losses = np.ascontiguousarray(outcome.losses, dtype="<f4")
    judged = judge.losses_that_count(losses, outcome.evaluations) if outcome.loss is None else [outcome.loss]
    sound = bool(judged) and bool(np.isfinite(losses).all()) and all(map(math.isfinite, judged))
    diverged = bool(outcome.diverged) or not sound
    # fsum: the same on any machine. SQLite keeps -0.0 as 0.0, which would not match the digest.
    loss = math.inf if diverged else math.fsum(judged) / len(judged) + 0.0
    now = datetime.now(UTC).isoformat(timespec="seconds")
    rows = [(one.steps, one.loss, one.accuracy) for one in outcome.evaluations]
    evaluations = np.array(rows, dtype="<f8").tobytes()  # None becomes NaN
    failure = _one_line(outcome.failure or "")
    return Record(cell, loss, diverged, outcome.seconds + 0.0, now, losses.tobytes(), evaluations, failure)


def stored_metric(record: Record, metric: str, epochs: int | None) -> float | None:
    """A finished cell's loss by a metric that was stored with it, or None if it was not stored.

    Args:
        record: The cell.
        metric: As `Results.by` takes it.
        epochs: How many epochs a run has, if its length was given so; `last_epoch` needs to know.
    """
    losses = np.frombuffer(record.losses, "<f4")
    if len(losses) and (metric == "budget" or (metric == "last_epoch" and epochs is not None)):
        last_steps = len(losses) // epochs if epochs is not None and metric == "last_epoch" else None
        judged = Judge(metric, last_steps).losses_that_count(losses, ())
        return math.fsum(judged) / len(judged)
    evaluations = {one.steps: one for one in record.evaluated()}
    if metric == "error" and evaluations and (accuracy := evaluations[max(evaluations)].accuracy) is not None:
        return 1 - accuracy
    evaluated = re.fullmatch(r"validation(?:@(0?\.\d{1,9}|\d(?:\.\d+)?e-\d\d))?", metric)
    if evaluated is not None and evaluations:
        steps = max(1, round(float(evaluated[1] or 1) * max(evaluations)))
        if steps in evaluations:
            return evaluations[steps].loss
    return None


def _one_line(text: str) -> str:
    """Without what a terminal or a table would take for something else."""
    text = text[:MOST_FAILURE]
    for mark in set(text):
        text = text if mark.isprintable() else text.replace(mark, " ")
    return text
