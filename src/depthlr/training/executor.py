"""Executors: what trains the cells that a search asks for.

A sweep submits cells, and takes their outcomes as they finish. An executor never opens the study's file: the sweep is
its only writer. The same contract tests run on every executor (`tests/training/test_executors.py`).
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from depthlr.errors import DepthlrError
from depthlr.training.cell import Cell, Outcome, failed_outcome, outcome_or_failure


@dataclass(frozen=True)
class Limits:
    """What a cell may cost.

    Args:
        timeout: Seconds after which a cell is given up. None waits for ever. The time that a worker process takes to
            start does not count, up to `workers.START_SECONDS`.
        retries: How often a cell is tried again after its process died. An error of the model's own code is final.
    """

    timeout: float | None = None
    retries: int = 1

    def __post_init__(self) -> None:
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise DepthlrError(f"a time limit of {self.timeout:g} s cannot be kept: give a number of seconds above 0.")


class Handle:
    """A submitted cell, as `Executor.submit` returns it."""

    __slots__ = ("_begun", "_cancelled", "_executor", "_outcome", "cell", "started", "tries")

    def __init__(self, cell: Cell, executor: Executor) -> None:
        self.cell = cell
        self.tries = 0  # how often its training was begun
        self.started = math.inf  # by the monotonic clock; in the future while its process starts
        self._executor = executor
        self._outcome: Outcome | None = None
        self._begun = self._cancelled = False

    def done(self) -> bool:
        """Whether the cell has an outcome or was cancelled; does not wait for another process."""
        if self.open:
            self._executor.work(0.0)
        return not self.open

    def result(self) -> Outcome:
        """Wait for the outcome. A cell that failed has an outcome that says why; a cancelled one raises."""
        while self.open:
            self._executor.work()
        if self._outcome is None:
            raise CancelledError(f"{self.cell} was cancelled")
        return self._outcome

    def cancel(self) -> bool:
        """Give the cell up; False if it is done already, or cannot be stopped any more."""
        return self.open and self._executor.cancel(self)

    @property
    def open(self) -> bool:
        """Is the cell neither finished nor cancelled, as far as this process knows?"""
        return self._outcome is None and not self._cancelled


class Executor(ABC):
    """Trains cells, in any order, as many at once as it can.

    A subclass implements `work`: it takes cells from `_next` and hands their outcomes to `_finish`. If it returns while
    cells are being trained, it implements `busy`. If it can end such a cell, it implements `stop`. If it holds
    processes or memory, it implements `close`.
    """

    capacity = 1  # cells that it trains at once; more may be submitted, and wait

    def __init__(self) -> None:
        self._waiting: deque[Handle] = deque()
        self._finished: list[Handle] = []
        self._unfinished = 0  # submitted, and neither finished nor cancelled

    def submit(self, cell: Cell) -> Handle:
        """Queue a cell.

        Args:
            cell: The cell.
        """
        handle = Handle(cell, self)
        self._waiting.append(handle)
        self._unfinished += 1
        return handle

    def wait(self) -> list[Handle]:
        """Block until a cell is finished; return those finished since the last call, or none if none is left."""
        while self._unfinished and not self._finished:
            self.work()
            if not self._finished and not self.busy() and self._peek() is None and self._unfinished:
                raise DepthlrError(f"The executor {type(self).__name__} gave no result for {self._unfinished} cells.")
        return self._collected()

    def train(self, cells: Iterable[Cell]) -> Generator[tuple[Cell, Outcome], None, None]:
        """Submit cells, and yield them with their outcomes as they finish. Closed early, it cancels the others.

        Args:
            cells: The cells.
        """
        with closing(self.train_together(cells)) as finished:
            for batch in finished:
                yield from batch

    def train_together(self, cells: Iterable[Cell]) -> Generator[list[tuple[Cell, Outcome]], None, None]:
        """As `train`, but yield at once all cells that finished since the last ones, to be kept by one commit.

        Args:
            cells: The cells.
        """
        handles = dict.fromkeys(map(self.submit, cells))
        try:
            while handles:
                # A round without news returns none: look at all of ours, as another caller may have been handed them.
                news = self.wait() or list(handles)
                finished = [handle for handle in news if handle in handles and not handle.open]
                for handle in finished:
                    del handles[handle]
                if finished:
                    yield [(handle.cell, handle.result()) for handle in finished]
        finally:
            for handle in handles:
                handle.cancel()

    def cancel(self, handle: Handle) -> bool:
        """Give up one of this executor's cells, as `Handle.cancel` does.

        Args:
            handle: The submitted cell.
        """
        if handle._begun and not self.stop(handle):
            return False
        handle._cancelled = True
        self._unfinished -= 1
        return True

    @abstractmethod
    def work(self, timeout: float | None = None) -> None:
        """Begin waiting cells, and collect outcomes.

        Args:
            timeout: How many seconds to wait for another process at most; None waits until something happens. An
                executor that trains in this process trains a part of its work instead.
        """

    def busy(self) -> bool:
        """Does `work` go on with cells that it has begun? An executor that begins more than it ends says so."""
        return False

    def stop(self, handle: Handle) -> bool:
        """End a cell that is being trained; False if that cannot be done.

        Args:
            handle: The submitted cell.
        """
        return False

    def close(self) -> None:  # noqa: B027 (most executors hold nothing)
        """Give back what is held; cells that are not finished are lost."""

    def _peek(self) -> Handle | None:
        """The next cell to train."""
        while self._waiting and not self._waiting[0].open:
            self._waiting.popleft()  # cancelled
        return self._waiting[0] if self._waiting else None

    def _next(self) -> Handle | None:
        """The next cell to train, taken out of the queue."""
        handle = self._peek()
        if handle is not None:
            self._waiting.popleft()
            handle._begun, handle.started = True, time.monotonic()
            handle.tries += 1
        return handle

    def _collected(self) -> list[Handle]:
        """Handles that finished since the last call."""
        found, self._finished = self._finished, []
        return found

    def _finish(self, handle: Handle, outcome: Outcome) -> None:
        if handle.open:
            handle._outcome = outcome
            self._finished.append(handle)
            self._unfinished -= 1


class InProcess(Executor):
    """Trains cells in this process, one after the other, by a method of the subclass."""

    @abstractmethod
    def run(self, cell: Cell) -> Outcome:
        """Train one cell; what it raises is the reason why the cell failed.

        Args:
            cell: The cell.
        """

    def work(self, timeout: float | None = None) -> None:
        handle = self._next()
        if handle is not None:
            self._finish(handle, outcome_or_failure(partial(self.run, handle.cell)))


class JobExecutor(Executor):
    """Trains each cell as a job outside of this thread of control: a process, a command, a task on another machine.

    A subclass says how jobs are submitted, waited for, read and ended. An error of the user's own code is an outcome.
    So a job without an outcome has lost its process, and its cell is tried again.

    Args:
        capacity: Jobs that run at once.
        limits: The time limit of a cell, and how often it is tried again.
    """

    poll = 0.05  # seconds between two looks at the jobs, where nothing better than looking is known

    def __init__(self, capacity: int, limits: Limits | None = None) -> None:
        super().__init__()
        self.capacity, self._limits = capacity, limits or Limits()
        self._jobs: dict[Any, Handle] = {}  # that run, with their cells

    def work(self, timeout: float | None = None) -> None:
        self._begin()
        if not self._jobs:
            return
        limit = math.inf if self._limits.timeout is None else self._limits.timeout
        left = limit - max(map(_seconds, self._jobs.values()))
        wait = max(0.0, min(left, math.inf if timeout is None else timeout))
        for job in self._wait(list(self._jobs), None if wait == math.inf else wait):
            handle = self._jobs.pop(job)
            outcome = self._outcome(job)
            if isinstance(outcome, Outcome):
                self._finish(handle, outcome)
            elif handle.tries > self._limits.retries:
                self._finish(handle, failed_outcome(outcome, _seconds(handle)))
            else:  # again, before the cells that wait
                handle._begun = False
                self._waiting.appendleft(handle)
        for handle in list(self._jobs.values()):
            if _seconds(handle) > limit:
                self.stop(handle)
                self._finish(handle, failed_outcome(f"it took longer than {limit:g} s", _seconds(handle)))
        self._begin()  # before the caller sees the outcomes: writing them takes a while

    def busy(self) -> bool:
        return bool(self._jobs)

    def stop(self, handle: Handle) -> bool:
        for job in [job for job, running in self._jobs.items() if running is handle]:
            del self._jobs[job]
            self._end(job)
        return True

    def close(self) -> None:
        for job in self._jobs:
            self._end(job)
        self._jobs.clear()

    def _begin(self) -> None:
        handles: list[Handle] = []
        while len(self._jobs) + len(handles) < self.capacity and (handle := self._next()) is not None:
            handles.append(handle)
        if handles:
            self._jobs |= zip(self._submit(handles), handles, strict=True)

    @abstractmethod
    def _submit(self, handles: Sequence[Handle]) -> Iterable[Any]:
        """Begin a job for each cell. A cell whose job is not ready to train is given a later `started`."""

    def _wait(self, jobs: Sequence[Any], timeout: float | None) -> Sequence[Any]:
        """Return the jobs that are done. Wait for one of them at most so many seconds."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            done = [job for job in jobs if job.done()]
            left = until - time.monotonic()
            if done or left <= 0:
                return done
            time.sleep(min(self.poll, left))

    @abstractmethod
    def _outcome(self, job: Any) -> Outcome | str:
        """Return the outcome of a job that is done, or how its process was lost."""

    @abstractmethod
    def _end(self, job: Any) -> None:
        """End a job in the middle."""


def _seconds(handle: Handle) -> float:
    """How long a cell has been trained; less than 0 while its process starts."""
    return time.monotonic() - handle.started


class BySize(Executor):
    """An executor of cells of any size, made of executors of one size each.

    One of them is open at a time, so its model stays warm. It is closed when a cell of another size is next.

    Args:
        open_runner: Makes the executor of a size.
    """

    def __init__(self, open_runner: Callable[[int], Executor]) -> None:
        super().__init__()
        self._open_runner = open_runner
        self._size: int | None = None
        self._runner: Executor | None = None
        self._running: dict[Handle, Handle] = {}  # of this executor, by those of the runner

    def work(self, timeout: float | None = None) -> None:
        while self._has_room() and (handle := self._next()) is not None:
            if self._runner is None or handle.cell.size != self._size:
                self.close()
                self._runner, self._size = self._open_runner(handle.cell.size), handle.cell.size
            self._running[self._runner.submit(handle.cell)] = handle
        if self._runner is not None and self._running:
            self._runner.work(timeout)
            for inner in self._runner._collected():
                self._finish(self._running.pop(inner), inner.result())

    def _has_room(self) -> bool:
        """Whether the next cell can begin: one of another size begins when those of this size have finished."""
        if self._runner is None or not self._running:
            return True
        following = self._peek()
        same = following is not None and following.cell.size == self._size
        return same and len(self._running) < self._runner.capacity

    def busy(self) -> bool:
        return bool(self._running)

    def stop(self, handle: Handle) -> bool:
        inner = next((inner for inner, outer in self._running.items() if outer is handle), None)
        if inner is None or not inner.cancel():
            return False
        del self._running[inner]
        return True

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()
        self._runner = self._size = None
        self._running.clear()
