"""Sweep a training function of the user's own: `sweep_function(train, rates, sizes)`."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.study.description import Models, Search, Study
from depthlr.study.progress import Progress
from depthlr.study.results import Results
from depthlr.study.run import SweepInterrupted, sweep
from depthlr.training.cell import Cell, Outcome
from depthlr.training.executor import InProcess
from depthlr.training.training import Training

MOST_UNEVEN = 0.1  # of a grid step: how far a rate may lie from the even grid, as 3e-3 between 1e-3 and 1e-2 does


def sweep_function(
    train: Callable[[float, int, int], float | Tensor],
    rates: Sequence[float],
    sizes: Sequence[int],
    seeds: int | Sequence[int] = 3,
    out: Path | str | None = None,
    *,
    kind: str = "adaptive",
    progress: Progress | None = None,
    retry_failed: bool = False,
) -> Results:
    """Tune the learning rate of your own training function at several sizes.

    Args:
        train: Called as `train(rate, size, seed)`, one call at a time, in this process. It returns the loss, a
            number or a tensor. A loss that is not finite has diverged, and an error fails this cell alone.
        rates: The grid of rates, evenly spaced in the logarithm, such as `numpy.geomspace(1e-4, 1, 41)`. Rates that
            lie within a tenth of a step of an even grid, such as 1e-3, 3e-3, 1e-2, are moved onto it.
        sizes: The sizes of the model, such as its numbers of layers.
        seeds: The seeds, or how many.
        out: The study's file. The same call resumes it. None keeps no file.
        kind: "adaptive" runs as many rates as finding the optimum takes, "grid" all of them.
        progress: Is told when the sweep begins and after every finished cell.
        retry_failed: Train the cells again that failed in an earlier call.
    """
    grid = sorted(check.rate("an entry of rates", float(rate)) for rate in rates)
    if len(grid) < 3:
        raise DepthlrError(f"rates has {len(grid)} entries: give three or more, such as numpy.geomspace(1e-4, 1, 41).")
    every = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    search = Search(kind, grid[0], grid[-1], len(grid), every)
    off = max(abs(math.log10(ours / theirs)) for ours, theirs in zip(search.rates, grid, strict=True))
    if off > MOST_UNEVEN * search.spacing:
        raise DepthlrError(
            "rates are not evenly spaced in the logarithm: write "
            f"numpy.geomspace({grid[0]:g}, {grid[-1]:g}, {len(grid)}) in their place."
        )
    if not isinstance(sizes, Iterable):
        raise DepthlrError(f"sizes is {sizes!r}: give a list of sizes, such as [2, 4, 8].")
    name = getattr(train, "__name__", "") or "function"
    study = Study(name, Models(sizes=tuple(sorted(sizes))), Training(), search=search)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.sqlite" if out is None else out
        try:
            return sweep(study, FunctionExecutor(train), path, progress=progress, retry_failed=retry_failed)
        except SweepInterrupted as stop:
            if out is not None:
                raise
            raise KeyboardInterrupt(f"stopped after {stop.cells} cells: give out= to keep them") from stop


class FunctionExecutor(InProcess):
    """Trains cells by a function of the user's own."""

    def __init__(self, train: Callable[[float, int, int], float | Tensor]) -> None:
        self._train = train

    def run(self, cell: Cell) -> Outcome:
        start = time.perf_counter()
        found = self._train(cell.rate, cell.size, cell.seed)
        loss = float(found.detach() if isinstance(found, Tensor) else found)
        return Outcome(np.zeros(0, np.float32), time.perf_counter() - start, not math.isfinite(loss), loss=loss)
