"""Executors: what trains the cells that a search asks for.

A sweep submits cells, and takes their outcomes as they finish. An executor never opens the study's file: the sweep is
its only writer. The same contract tests run on every executor (`tests/training/test_executors.py`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial

from depthlr.errors import DepthlrError
from depthlr.training.cell import Cell, Outcome, outcome_or_failure


@dataclass(frozen=True)
class Limits:
    """What a cell may cost.

    Args:
        timeout: seconds after which a cell is given up; None waits for ever.
        retries: how often a cell is tried again after its process died. An error of the model's own code is final.
    """

    timeout: float | None = None
    retries: int = 1

    def __post_init__(self) -> None:
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise DepthlrError(f"a time limit of {self.timeout:g} s cannot be kept: give a number of seconds above 0.")


class Handle:
    """A submitted cell, as `Executor.submit` returns it."""

    __slots__ = ("_begun", "_cancelled", "_executor", "_outcome", "cell", "tries")

    def __init__(self, cell: Cell, executor: Executor) -> None:
        self.cell = cell
        self.tries = 0  # how often its training was begun
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

    A subclass implements `work`, which takes cells by `_next` and hands their outcomes to `_finish`. It also implements
    `stop` if it can end a cell that is being trained, and `close` if it holds anything.
    """

    capacity = 1  # cells that it trains at once; more may be submitted, and wait

    def __init__(self) -> None:
        self._waiting: deque[Handle] = deque()
        self._finished: list[Handle] = []
        self._open = 0  # submitted, and neither finished nor cancelled

    def submit(self, cell: Cell) -> Handle:
        """Queue a cell."""
        handle = Handle(cell, self)
        self._waiting.append(handle)
        self._open += 1
        return handle

    def wait(self) -> list[Handle]:
        """Block until a cell is finished; return those finished since the last call, or none if none is left."""
        while self._open and not self._finished:
            self.work()
        return self._collected()

    def train(self, cells: Iterable[Cell]) -> Generator[tuple[Cell, Outcome], None, None]:
        """Submit cells, and yield them with their outcomes as they finish. Closed early, it cancels the others."""
        handles = dict.fromkeys(map(self.submit, cells))
        try:
            while handles:
                # Another caller of `wait` may have been handed ours, and we may be handed another's.
                for handle in self.wait() or [handle for handle in handles if not handle.open]:
                    if handle in handles:
                        del handles[handle]
                        yield handle.cell, handle.result()
        finally:
            for handle in handles:
                handle.cancel()

    def cancel(self, handle: Handle) -> bool:
        """Give up one of this executor's cells, as `Handle.cancel` does."""
        if handle._begun and not self.stop(handle):
            return False
        handle._cancelled = True
        self._open -= 1
        return True

    @abstractmethod
    def work(self, timeout: float | None = None) -> None:
        """Begin waiting cells, and collect outcomes.

        Args:
            timeout: How many seconds to wait for another process at most; None waits until something happens. An
                executor that trains in this process trains a part of its work instead.
        """

    def stop(self, handle: Handle) -> bool:
        """End a cell that is being trained; False if that cannot be done."""
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
            handle._begun = True
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
            self._open -= 1

    def _lose(self, handle: Handle, retries: int, outcome: Outcome) -> None:
        """The process that trained a cell died: try it again first of all, or finish it if it was tried enough."""
        if handle.tries > retries:
            self._finish(handle, outcome)
        elif handle.open:
            handle._begun = False
            self._waiting.appendleft(handle)


class InProcess(Executor):
    """Trains cells in this process, one after the other, by a method of the subclass."""

    @abstractmethod
    def run(self, cell: Cell) -> Outcome:
        """Train one cell; what it raises is the reason why the cell failed."""

    def work(self, timeout: float | None = None) -> None:
        handle = self._next()
        if handle is not None:
            self._finish(handle, outcome_or_failure(partial(self.run, handle.cell)))


class BySize(Executor):
    """An executor of cells of any size, made of executors of one size each.

    One of them is open at a time, so its model stays warm. It is closed when a cell of another size is next.

    Args:
        open_runner: makes the executor of a size.
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
