"""Which runner trains a study's cells: CUDA graphs where there is a GPU, one process a core where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from depthlr.training.cell import Cell, Outcome, Runner
from depthlr.training.device import chosen_device, cores
from depthlr.training.graphs import MOST_LANES, GraphRunner
from depthlr.training.serial import SerialRunner
from depthlr.training.workers import MakeTask, Workers


@contextmanager
def open_engine(
    make_task: MakeTask, *, device: str | None = None, workers: int | None = None
) -> Iterator[Callable[[int], Runner]]:
    """A function that opens a runner for a size. `make_task(size)` must be picklable where workers are processes."""
    device = device or chosen_device()
    if device.startswith("cuda"):
        yield _Graphs(make_task, device)
        return
    count = workers or cores()
    if count == 1:
        yield lambda size: SerialRunner(make_task(size), device)
        return
    pool = Workers(make_task, count)  # outlives the sizes: a process takes seconds to start
    try:
        yield lambda size: _Lent(pool)
    finally:
        pool.close()


class _Graphs:
    """Opens runners on a GPU. A larger model fills it with fewer lanes, so no more are tried than the last one kept."""

    def __init__(self, make_task: MakeTask, device: str) -> None:
        self._make_task, self._device = make_task, device
        self._size, self._lanes = 0, MOST_LANES

    def __call__(self, size: int) -> Runner:
        most = self._lanes if size >= self._size else MOST_LANES
        runner = GraphRunner(self._make_task(size), self._device, most=most)
        self._size, self._lanes = size, runner.lanes
        return runner


class _Lent:
    """The pool, for one size; closing it leaves the pool open."""

    def __init__(self, pool: Workers) -> None:
        self._pool = pool

    def train(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
        return self._pool.train(cells)

    def close(self) -> None:
        pass
