"""Sweep a training function of the user's own: `sweep_function(train, rates, sizes)`."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.study.description import Models, Search, Study
from depthlr.study.progress import Progress
from depthlr.study.results import Results
from depthlr.study.run import sweep
from depthlr.training.cell import Cell, Outcome
from depthlr.training.executor import InProcess
from depthlr.training.training import Training

MOST_UNEVEN = 1e-3  # of a grid step: how far a rate may lie from the even grid


def sweep_function(
    train: Callable[[float, int, int], float],
    rates: Sequence[float],
    sizes: Sequence[int],
    seeds: int | Sequence[int] = 3,
    out: Path | str | None = None,
    *,
    kind: str = "adaptive",
    progress: Progress | None = None,
) -> Results:
    """Tune the learning rate of your own training function at several sizes.

    Args:
        train: Called as `train(rate, size, seed)`, one call at a time, in this process. It returns the loss. A loss
            that is not finite has diverged, and an error fails this cell alone.
        rates: The grid of rates, evenly spaced in the logarithm, such as `numpy.geomspace(1e-4, 1, 41)`.
        sizes: The sizes of the model, such as its numbers of layers.
        seeds: The seeds, or how many.
        out: The study's file. The same call resumes it. None keeps no file.
        kind: "adaptive" runs as many rates as finding the optimum takes, "grid" all of them.
        progress: Is told when the sweep begins and after every finished cell.
    """
    grid = sorted(check.rate("an entry of rates", float(rate)) for rate in rates)
    if len(grid) < 3:
        raise DepthlrError(f"rates has {len(grid)} entries: give three or more, such as numpy.geomspace(1e-4, 1, 41).")
    every = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    search = Search(kind, grid[0], grid[-1], len(grid), every)
    off = max(abs(math.log10(ours / theirs)) for ours, theirs in zip(search.rates, grid, strict=True))
    if off > MOST_UNEVEN * search.spacing:
        raise DepthlrError(
            "rates are not evenly spaced in the logarithm: write numpy.geomspace(low, high, points) in their place."
        )
    name = getattr(train, "__name__", "") or "function"
    study = Study(name, Models(sizes=tuple(sorted(sizes))), Training(), search=search)
    if out is not None:
        return sweep(study, FunctionExecutor(train), out, progress=progress)
    with tempfile.TemporaryDirectory() as folder:
        return sweep(study, FunctionExecutor(train), Path(folder) / "study.sqlite", progress=progress)


class FunctionExecutor(InProcess):
    """Trains cells by a function of the user's own."""

    def __init__(self, train: Callable[[float, int, int], float]) -> None:
        super().__init__()
        self._train = train

    def run(self, cell: Cell) -> Outcome:
        start = time.perf_counter()
        loss = float(self._train(cell.rate, cell.size, cell.seed))
        return Outcome(np.zeros(0, np.float32), time.perf_counter() - start, not math.isfinite(loss), loss=loss)
