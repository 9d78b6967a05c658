"""Cells that a longer sweep began with: the first epochs of its runs are these runs, and are not trained again."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace

import numpy as np

from depthlr.study.description import Study
from depthlr.study.record import Content, Record
from depthlr.training.cell import Cell, Outcome, has_diverged
from depthlr.training.executor import Executor, Finished


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


class Recalling(Executor):
    """Hands over the outcomes that are known, and gives all other cells to another executor."""

    def __init__(self, executor: Executor, known: Mapping[Cell, Outcome]) -> None:
        self._executor, self._known = executor, known

    def train_together(self, cells: Iterable[Cell]) -> Generator[Finished, None, None]:
        wanted = list(cells)
        recalled = [(cell, self._known[cell]) for cell in wanted if cell in self._known]
        if recalled:
            yield recalled
        yield from self._executor.train_together(cell for cell in wanted if cell not in self._known)


def _beginning(record: Record, steps: int) -> Outcome:
    """A run that stopped within these steps had diverged by then; one that diverged later had not."""
    losses = np.frombuffer(record.losses, "<f4").astype(np.float32)[:steps]
    diverged = len(losses) < steps or has_diverged(losses)
    return Outcome(losses, 0.0, diverged)
