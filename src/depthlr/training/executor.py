"""Executors: what trains the cells that a search asks for.

A sweep gives cells, and takes their outcomes as they finish. An executor never opens the study's file: the sweep is
its only writer. The same contract tests run on every executor (`tests/training/test_executors.py`).
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

from depthlr.errors import DepthlrError
from depthlr.training.cell import Cell, Outcome, failed_outcome, outcome_or_failure

Finished = list[tuple[Cell, Outcome]]
"""Cells that finished since the last ones. A sweep keeps them by one commit."""


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


class Executor(ABC):
    """Trains cells, in any order, as many at once as it can, for one caller at a time.

    A subclass implements `train_together`. If it holds processes or memory, it implements `close`.
    """

    capacity = 1  # cells that it trains at once; more may be given, and wait

    def train(self, cells: Iterable[Cell]) -> Generator[tuple[Cell, Outcome], None, None]:
        """Train cells, and yield them with their outcomes as they finish. Closed early, it ends the others.

        Args:
            cells: The cells.
        """
        with closing(self.train_together(cells)) as finished:
            for batch in finished:
                yield from batch

    @abstractmethod
    def train_together(self, cells: Iterable[Cell]) -> Generator[Finished, None, None]:
        """As `train`, but yield at once all cells that finished since the last ones.

        Args:
            cells: The cells.
        """

    def close(self) -> None:  # noqa: B027 (most executors hold nothing)
        """Give back what is held; cells that are not finished are lost."""


class InProcess(Executor):
    """Trains cells in this process, one after the other, by a method of the subclass."""

    def train_together(self, cells: Iterable[Cell]) -> Generator[Finished, None, None]:
        for cell in cells:
            yield [(cell, outcome_or_failure(partial(self.run, cell)))]

    @abstractmethod
    def run(self, cell: Cell) -> Outcome:
        """Train one cell; what it raises is the reason why the cell failed.

        Args:
            cell: The cell.
        """


class BySize(Executor):
    """An executor of cells of any size, made of executors of one size each.

    One of them is open at a time, so its model stays warm. It is closed when a cell of another size is next.

    Args:
        open_runner: Makes the executor of a size.
    """

    def __init__(self, open_runner: Callable[[int], Executor]) -> None:
        self._open_runner = open_runner
        self._size: int | None = None
        self._runner: Executor | None = None

    def train_together(self, cells: Iterable[Cell]) -> Generator[Finished, None, None]:
        for size, alike in groupby(cells, key=attrgetter("size")):
            if self._runner is None or size != self._size:
                self.close()
                self._runner, self._size = self._open_runner(size), size
            yield from self._runner.train_together(alike)

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()
        self._runner = None


@dataclass(eq=False, slots=True)
class Attempt:
    """A cell that is trained as a job."""

    cell: Cell
    tries: int = 0  # how often its training was begun
    started: float = 0.0  # by the monotonic clock; in the future while its process starts

    @property
    def seconds(self) -> float:
        """How long it has been trained; less than 0 while its process starts."""
        return time.monotonic() - self.started


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
        self.capacity, self._limits = capacity, limits or Limits()

    def train_together(self, cells: Iterable[Cell]) -> Generator[Finished, None, None]:
        waiting, running = deque(map(Attempt, cells)), dict[Any, Attempt]()
        try:
            self._begin(waiting, running)
            while running:
                finished = self._collect(waiting, running)
                self._begin(waiting, running)  # before the caller sees the outcomes: writing them takes a while
                if finished:
                    yield finished
        finally:
            self._end(list(running))

    def _begin(self, waiting: deque[Attempt], running: dict[Any, Attempt]) -> None:
        attempts = [waiting.popleft() for _ in range(min(len(waiting), self.capacity - len(running)))]
        for attempt in attempts:
            attempt.tries, attempt.started = attempt.tries + 1, time.monotonic()
        if attempts:
            running |= zip(self._submit(attempts), attempts, strict=True)

    def _collect(self, waiting: deque[Attempt], running: dict[Any, Attempt]) -> Finished:
        """Wait for a job, and return the cells that are done or took too long. Lost ones wait to be tried again."""
        limit = math.inf if self._limits.timeout is None else self._limits.timeout
        left = limit - max(attempt.seconds for attempt in running.values())
        finished: Finished = []
        for job in self._wait(list(running), None if left == math.inf else max(0.0, left)):
            attempt = running.pop(job)
            outcome = self._outcome(job)
            if isinstance(outcome, Outcome):
                finished.append((attempt.cell, outcome))
            elif attempt.tries > self._limits.retries:
                finished.append((attempt.cell, failed_outcome(outcome, attempt.seconds)))
            else:  # again, before the cells that wait
                waiting.appendleft(attempt)
        late = {job: attempt for job, attempt in running.items() if attempt.seconds > limit}
        self._end(list(late))
        for job, attempt in late.items():
            del running[job]
            finished.append((attempt.cell, failed_outcome(f"it took longer than {limit:g} s", attempt.seconds)))
        return finished

    @abstractmethod
    def _submit(self, attempts: Sequence[Attempt]) -> Iterable[Any]:
        """Begin a job for each cell, in their order. A cell whose job is not ready to train gets a later `started`."""

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
    def _end(self, jobs: Sequence[Any]) -> None:
        """End jobs in the middle."""
