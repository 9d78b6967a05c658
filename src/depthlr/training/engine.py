"""Which runner trains a study's cells: CUDA graphs where there is a GPU, one process a core where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from depthlr.training.cell import Cell, Outcome, Runner, outcome_or_failure
from depthlr.training.device import chosen_device, cores
from depthlr.training.graphs import MOST_LANES, GraphRunner
from depthlr.training.serial import SerialRunner
from depthlr.training.workers import Limits, MakeTask, Workers


@contextmanager
def open_engine(
    make_task: MakeTask, *, device: str | None = None, workers: int | None = None, limits: Limits | None = None
) -> Iterator[Callable[[int], Runner]]:
    """A function that opens a runner for a size.

    Args:
        make_task: the task of a size; picklable where workers are processes.
        device: a GPU, or the cores of the CPU; chosen unless given.
        workers: how many processes train on a CPU; one a core unless given.
        limits: what a cell may cost. A time limit needs a process that can be ended, so one worker is one too then.
    """
    limits = limits or Limits()
    device = device or chosen_device()
    if device.startswith("cuda"):
        yield _Graphs(make_task, device, limits)
        return
    count = workers or cores()
    if count == 1 and limits.timeout is None:
        yield lambda size: _InThisProcess(SerialRunner(make_task(size), device))
        return
    pool = Workers(make_task, count, limits)  # outlives the sizes: a process takes seconds to start
    try:
        yield lambda size: _Lent(pool)
    finally:
        pool.close()


class _Graphs:
    """Opens runners on a GPU. A larger model fills it with fewer lanes, so no more are tried than the last one kept."""

    def __init__(self, make_task: MakeTask, device: str, limits: Limits) -> None:
        self._make_task, self._device, self._limits = make_task, device, limits
        self._size, self._lanes = 0, MOST_LANES

    def __call__(self, size: int) -> Runner:
        most = self._lanes if size >= self._size else MOST_LANES
        runner = GraphRunner(self._make_task(size), self._device, most=most, timeout=self._limits.timeout)
        self._size, self._lanes = size, runner.lanes
        return runner


class _InThisProcess:
    """A serial runner whose cells fail one by one."""

    def __init__(self, runner: SerialRunner) -> None:
        self._runner = runner

    def train(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
        for cell in cells:
            yield cell, outcome_or_failure(partial(self._one, cell))

    def close(self) -> None:
        self._runner.close()

    def _one(self, cell: Cell) -> Outcome:
        ((_, outcome),) = self._runner.train([cell])
        return outcome


class _Lent:
    """The pool, for one size; closing it leaves the pool open."""

    def __init__(self, pool: Workers) -> None:
        self._pool = pool

    def train(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
        return self._pool.train(cells)

    def close(self) -> None:
        pass
