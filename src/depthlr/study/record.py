"""What a study's file holds: the study, a record of every finished cell, and the environments that trained them.

A record has a digest over all of it, so a damaged one is never trusted.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

import numpy as np

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.study.description import Study, study_from_dict
from depthlr.study.environment import Environment
from depthlr.training.cell import Cell, Evaluation

HEAD_COLUMNS = ("size", "seed", "rate", "loss", "diverged", "seconds", "finished")
RECORD_COLUMNS = (*HEAD_COLUMNS, "losses", "sha256", "evaluations", "failure")
TYPES = (int, int, float, float, int, float, str, bytes, str, bytes, str)  # of the columns
EVALUATION_BYTES = 3 * 8


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
    failure: str = ""  # why it could not be trained, if so; it counts as diverged

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
