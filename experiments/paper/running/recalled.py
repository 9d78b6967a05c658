"""Cells that a longer sweep began with: the first epochs of its runs are these runs, and are not trained again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from depthlr.study.description import Study
from depthlr.study.record import Record
from depthlr.study.run import OpenRunner
from depthlr.study.store import Content
from depthlr.training.cell import Cell, Outcome, Runner, has_diverged


def beginnings(longer: Content, study: Study, steps: int, data_digest: str) -> dict[Cell, Outcome]:
    """The first `steps` of every cell of a sweep that is this study on these data but for its epochs; else none."""
    theirs = longer.study.training
    same = replace(theirs, epochs=study.training.epochs, steps=study.training.steps, metric=study.training.metric)
    if replace(longer.study, training=same).digest != study.digest or (theirs.epochs or 0) < (same.epochs or 0):
        return {}
    if longer.data_digest != data_digest:
        return {}
    # One that came from a table has no loss of every step.
    return {cell: _beginning(record, steps) for cell, record in longer.records.items() if record.losses}


def recalling(open_runner: OpenRunner, known: Mapping[Cell, Outcome]) -> OpenRunner:
    """Runners that hand over what is known, and open the true one only for what is not."""
    if not known:
        return open_runner
    return lambda size: _Recalling(open_runner, size, known)


class _Recalling:
    def __init__(self, open_runner: OpenRunner, size: int, known: Mapping[Cell, Outcome]) -> None:
        self._open, self._size, self._known = open_runner, size, known
        self._runner: Runner | None = None

    def train(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
        for cell in cells:
            if cell in self._known:
                yield cell, self._known[cell]
        rest = [cell for cell in cells if cell not in self._known]
        if rest:
            self._runner = self._runner or self._open(self._size)
            yield from self._runner.train(rest)

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()


def _beginning(record: Record, steps: int) -> Outcome:
    """A run that stopped within these steps had diverged by then; one that diverged later had not."""
    losses = np.frombuffer(record.losses, "<f4").astype(np.float32)[:steps]
    diverged = len(losses) < steps or has_diverged(losses)
    return Outcome(losses, 0.0, diverged)
