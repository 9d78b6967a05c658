"""What is kept of one finished cell, with a digest over all of it, so that a damaged record is never trusted."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from depthlr.training.cell import Cell, Outcome

COLUMNS = ("size", "seed", "rate", "loss", "diverged", "seconds", "finished", "losses", "sha256")
TYPES = (int, int, float, float, int, float, str, bytes, str)


@dataclass(frozen=True)
class Record:
    """A finished cell; `loss` is what it is judged by, infinite if it diverged. `losses` are float32, one a step."""

    cell: Cell
    loss: float
    diverged: bool
    seconds: float
    finished: str  # the date and time, UTC; empty where it is not known
    losses: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        head = (*_values(self.cell), self.loss, self.diverged, self.seconds, self.finished, len(self.losses))
        return hashlib.sha256(repr(head).encode() + self.losses).hexdigest()

    def row(self) -> tuple[Any, ...]:
        """As the store writes it, in the order of COLUMNS."""
        head = (*_values(self.cell), self.loss, int(self.diverged), self.seconds, self.finished)
        return (*head, self.losses, self.sha256)


def record(cell: Cell, outcome: Outcome, last: int | None) -> Record:
    """A finished cell judged by the mean loss of its `last` steps, or of all; whatever is not finite diverged."""
    losses = np.ascontiguousarray(outcome.losses, dtype="<f4")
    judged = losses if last is None else losses[-last:]
    diverged = bool(outcome.diverged) or not judged.size or not bool(np.isfinite(losses).all())
    loss = math.inf if diverged else math.fsum(map(float, judged)) / judged.size  # fsum: the same on any machine
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Record(cell, loss, diverged, float(outcome.seconds), now, losses.tobytes())


def read_record(row: Sequence[Any]) -> Record | None:
    """A record as it was written, or None where a bit of it changed since, or where it is none of ours."""
    size, seed, rate, loss, diverged, seconds, finished, losses, sha256 = row
    if tuple(map(type, row)) != TYPES or diverged not in (0, 1) or len(losses) % 4:
        return None
    found = Record(Cell(size, seed, rate), loss, bool(diverged), seconds, finished, losses)
    possible = size > 0 and seed >= 0 and 0 < rate < math.inf and found.diverged == (loss == math.inf)
    possible = possible and 0 <= seconds < math.inf and _is_date(finished)
    return found if possible and found.sha256 == sha256 else None


def _is_date(text: str) -> bool:
    try:
        return not text or (text.isascii() and datetime.fromisoformat(text) is not None)
    except ValueError:
        return False


def _values(cell: Cell) -> tuple[int, int, float]:
    return (cell.size, cell.seed, cell.rate)
