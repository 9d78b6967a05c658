"""The executor of cells on this machine: CUDA graphs on a GPU, else one process per core."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from depthlr.training.device import available_cores, default_device
from depthlr.training.executor import BySize, Executor, Limits
from depthlr.training.graphs import MOST_LANES, GraphRunner
from depthlr.training.serial import SerialExecutor
from depthlr.training.task import MakeTask
from depthlr.training.workers import Workers


@contextmanager
def open_executor(
    make_task: MakeTask, *, device: str | None = None, workers: int | None = None, limits: Limits | None = None
) -> Iterator[Executor]:
    """Open the executor that suits this machine. It is closed at the end.

    Args:
        make_task: Returns the task of a size. It must be picklable if workers are processes.
        device: "cpu", or a GPU. None takes a GPU if there is one.
        workers: How many processes train on a CPU. None takes one per core.
        limits: What a cell may cost. A time limit needs a process that can be ended, even for one worker.
    """
    limits = limits or Limits()
    device = device or default_device()
    count = workers or available_cores()
    executor: Executor
    if device.startswith("cuda"):
        executor = BySize(_OpenGraphRunner(make_task, device, limits))
    elif count == 1 and limits.timeout is None:
        executor = SerialExecutor(make_task, device)
    else:
        executor = Workers(make_task, count, limits)
    with closing(executor):
        yield executor


class _OpenGraphRunner:
    """Opens runners on a GPU. A larger model fills it with fewer lanes, so no more are tried than the last one kept."""

    def __init__(self, make_task: MakeTask, device: str, limits: Limits) -> None:
        self._make_task, self._device, self._limits = make_task, device, limits
        self._size, self._lanes = 0, MOST_LANES

    def __call__(self, size: int) -> GraphRunner:
        most = self._lanes if size >= self._size else MOST_LANES
        runner = GraphRunner(self._make_task(size), self._device, most=most, timeout=self._limits.timeout)
        self._size, self._lanes = size, runner.capacity
        return runner
