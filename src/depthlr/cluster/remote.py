"""What executors on other machines share: cells as futures of a library, with retries and time limits."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

import torch

from depthlr.errors import DepthlrError
from depthlr.training.cell import Cell, Outcome, failed_outcome, outcome_or_failure
from depthlr.training.executor import Executor, Handle, Limits
from depthlr.training.serial import SerialRunner
from depthlr.training.workers import MakeTask


class Remote(Executor):
    """Trains cells as futures of some library.

    A subclass says how futures are made, waited for, read and cancelled. An error of the user's code is an outcome. So
    a future that fails is a worker that was lost, and its cell is tried again.

    Args:
        capacity: cells that are under way at once.
        limits: the time limit of a cell, which includes the start of its worker, and how often it is tried again.
    """

    def __init__(self, capacity: int, limits: Limits | None = None) -> None:
        super().__init__()
        self.capacity, self._limits = capacity, limits or Limits()
        self._running: dict[Any, tuple[Handle, float]] = {}  # by future, with the time when it was submitted

    def work(self, timeout: float | None = None) -> None:
        self._begin()
        if not self._running:
            return
        limit, now = self._limits.timeout, time.monotonic()
        waits = [] if limit is None else [max(0.0, limit - (now - started)) for _, started in self._running.values()]
        waits += [] if timeout is None else [timeout]
        for future in self._done(list(self._running), min(waits, default=None)):
            handle, started = self._running.pop(future)
            seconds = time.monotonic() - started
            found = self._result(future)
            if isinstance(found, Outcome):
                self._finish(handle, found)
            else:
                self._lose(handle, self._limits.retries, failed_outcome(f"its worker was lost ({found})", seconds))
        for future, (handle, started) in list(self._running.items()):
            if limit is not None and time.monotonic() - started > limit:
                del self._running[future]
                self._cancel(future)
                self._finish(handle, failed_outcome(f"it took longer than {limit:g} s", time.monotonic() - started))
        self._begin()

    def stop(self, handle: Handle) -> bool:
        for future, (running, _) in list(self._running.items()):
            if running is handle:
                del self._running[future]
                self._cancel(future)
        return True

    def close(self) -> None:
        for future in self._running:
            self._cancel(future)
        self._running.clear()

    def _begin(self) -> None:
        handles: list[Handle] = []
        while len(self._running) + len(handles) < self.capacity and (handle := self._next()) is not None:
            handles.append(handle)
        if handles:
            futures = self._submit([handle.cell for handle in handles])
            now = time.monotonic()
            self._running |= {future: (handle, now) for future, handle in zip(futures, handles, strict=True)}

    @abstractmethod
    def _submit(self, cells: Sequence[Cell]) -> Iterable[Any]:
        """A future for each cell."""

    @abstractmethod
    def _done(self, futures: Sequence[Any], timeout: float | None) -> Iterable[Any]:
        """Those that are done; wait for one of them at most so long."""

    @abstractmethod
    def _result(self, future: Any) -> Outcome | str:
        """The outcome of a future that is done, or why its worker was lost."""

    @abstractmethod
    def _cancel(self, future: Any) -> None:
        """End it."""


def needed(module: str, extra: str) -> Any:
    """A module, or a sentence that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise DepthlrError(f"{module} is needed for this: run pip install 'depthlr[{extra}]'.") from error


# -- on the other machine ----------------------------------------------------------------------------------------------
_RUNNERS: dict[tuple[str, int, str], SerialRunner] = {}  # the last one, by the task's name, size and device


def train_cell(name: str, load: Callable[[], MakeTask], cell: Cell, device: str, threads: int) -> Outcome:
    """A cell's outcome, whatever the model's own code does; the model of a size stays warm in its process.

    Args:
        name: of the task, another one for each sweep.
        load: gets the task, with its data; called once a size.
        cell: which one to train.
        device: what it trains on.
        threads: of torch on a CPU.
    """
    torch.set_num_threads(threads)
    place = (name, cell.size, device)

    def train() -> Outcome:
        if place not in _RUNNERS:
            _RUNNERS.clear()
            _RUNNERS[place] = SerialRunner(load()(cell.size), device)
        return _RUNNERS[place].run(cell)

    outcome = outcome_or_failure(train)
    if outcome.failure is not None:
        _RUNNERS.clear()  # what a failed run left in the model is not trusted
    return outcome
