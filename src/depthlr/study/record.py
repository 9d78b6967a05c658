"""What a study's file holds: the study, a record of every finished cell, and the environments that trained them.

A record has a digest over all of it, so a damaged one is never trusted. A `Judge` says what a cell is judged by.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from depthlr import check
from depthlr.data.examples import Examples
from depthlr.errors import DepthlrError
from depthlr.study.description import Study, study_from_dict
from depthlr.study.tasks import epoch_steps
from depthlr.training.cell import Cell, Evaluation, Outcome
from depthlr.training.device import available_cores, default_device
from depthlr.version import VERSION

HEAD_COLUMNS = ("size", "seed", "rate", "loss", "diverged", "seconds", "finished")
RECORD_COLUMNS = (*HEAD_COLUMNS, "losses", "sha256", "evaluations", "failure")
TYPES = (int, int, float, float, int, float, str, bytes, str, bytes, str)  # of the columns
EVALUATION_BYTES = 3 * 8
MOST_FAILURE = 500  # characters of a reason


@dataclass(frozen=True)
class Environment:
    """A machine with its software; two sweeps of one study may have run on two."""

    device: str  # a GPU's name, or `CPU, 2 cores`
    torch: str
    depthlr: str
    python: str

    def __str__(self) -> str:
        return f"{self.device} (torch {self.torch}, depthlr {self.depthlr}, Python {self.python})"


def current_environment() -> Environment:
    """The environment of this process, with the device that `open_executor` chooses."""
    cores = available_cores()
    name = "CPU, 1 core" if cores == 1 else f"CPU, {cores} cores"
    if (device := default_device()) == "cuda":
        name = torch.cuda.get_device_name(device)
    return Environment(name, torch.__version__, VERSION, platform.python_version())


@dataclass(frozen=True)
class Record:
    """A finished cell. It is judged by `loss`, which is infinite if it diverged. `losses` are float32, one per step.

    `evaluations` are float64, three numbers each: steps, loss and accuracy on held-out data. A missing number is NaN.
    """

    cell: Cell
    loss: float
    diverged: bool
    seconds: float
    finished: str  # the date and time, UTC; empty where it is not known
    losses: bytes = field(repr=False)
    evaluations: bytes = field(default=b"", repr=False)
    failure: str = ""  # why it could not be trained, if so; its loss is infinite then, and `diverged` is set

    @property
    def head(self) -> tuple[Any, ...]:
        """All but the losses, the evaluations and the failure."""
        cell = self.cell
        return (cell.size, cell.seed, cell.rate, self.loss, self.diverged, self.seconds, self.finished)

    @property
    def sha256(self) -> str:
        tail = self.losses + self.evaluations + self.failure.encode()
        return hashlib.sha256(repr((*self.head, len(self.losses))).encode() + tail).hexdigest()

    def evaluated(self) -> tuple[Evaluation, ...]:
        """The run's evaluations, in the order of its steps."""
        found = []
        for steps, loss, accuracy in np.frombuffer(self.evaluations, "<f8").reshape(-1, 3).tolist():
            found.append(Evaluation(int(steps), loss, None if math.isnan(accuracy) else accuracy))
        return tuple(found)

    def row(self) -> tuple[Any, ...]:
        """As the store writes it, in the order of RECORD_COLUMNS."""
        *values, diverged, seconds, finished = self.head
        return (*values, int(diverged), seconds, finished, self.losses, self.sha256, self.evaluations, self.failure)


def read_record(row: Sequence[Any]) -> Record | None:
    """Read a record. None if a bit of it has changed, or if it is not ours.

    Args:
        row: The values of `RECORD_COLUMNS`.
    """
    if tuple(row[-2:]) == (None, None):  # a record from before runs were evaluated
        row = (*row[:-2], b"", "")
    if tuple(map(type, row)) != TYPES:
        return None
    size, seed, rate, loss, diverged, seconds, finished, losses, sha256, evaluations, failure = row
    found = Record(Cell(size, seed, rate), loss, bool(diverged), seconds, finished, losses, evaluations, failure)
    possible = (
        size > 0
        and seed >= 0
        and 0 < rate < math.inf
        and diverged == (loss == math.inf)
        and 0 <= seconds < math.inf
        and _is_date(finished)
        and len(losses) % 4 == len(evaluations) % EVALUATION_BYTES == 0
    )
    return found if possible and found.sha256 == sha256 else None


@dataclass(frozen=True)
class Content:
    """All that a study's file holds."""

    study: Study
    data_digest: str | None
    depths: Mapping[int, int] | None  # effective depth by size, if it was counted
    environments: tuple[Environment, ...]  # that trained the cells, in the order in which they came
    records: Mapping[Cell, Record] = field(default_factory=dict)
    damaged: tuple[Cell, ...] = ()  # whose records cannot be trusted, and which will be trained again


def read_facts(rows: Mapping[str, str]) -> Content:
    """Read all but the cells.

    Args:
        rows: The JSON of each fact. A file from before a fact was kept is without it.

    Raises:
        ValueError: A fact is not of its kind.
    """
    try:
        known = {name: json.loads(value) for name, value in rows.items()}
        depths, digest = known.get("depths"), known.get("data")
        if not isinstance(digest, str | None):
            raise DepthlrError(f"data is {digest!r}")
        if depths is not None:
            depths = {int(size): check.count("a depth", depth) for size, depth in depths.items()}
        environments = tuple(map(_environment, known.get("environments", ())))
        return Content(study_from_dict(known["study"]), digest, depths, environments)
    except (AttributeError, KeyError, TypeError) as error:
        raise DepthlrError(f"{type(error).__name__}: {error}") from error


def _environment(entries: Mapping[str, Any]) -> Environment:
    """As it was stored. Another version of depthlr may have stored more or less of it."""
    return Environment(**{one.name: str(entries.get(one.name, "unknown")) for one in fields(Environment)})


def _is_date(text: str) -> bool:
    try:
        return not text or (text.isascii() and datetime.fromisoformat(text) is not None)
    except ValueError:
        return False


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
    # Without what a terminal or a table would take for something else.
    failure = (outcome.failure or "")[:MOST_FAILURE]
    failure = "".join(mark if mark.isprintable() else " " for mark in failure)
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
    if metric.startswith("validation") and evaluations:
        steps = max(1, round(float(metric.partition("@")[2] or 1) * max(evaluations)))
        if steps in evaluations:
            return evaluations[steps].loss
    return None
