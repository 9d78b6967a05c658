"""Cells on several CPU cores: one process per core with one thread each, which is faster than threads for small models.

A cell that raises, exits, hangs or crashes its process is lost alone: its outcome says why, and the others continue.
The task, with its examples, goes to the workers in one temporary file that they map into memory. Shared memory
(`/dev/shm`) would need no file, but containers often have 64 MB of it, and a killed process leaves its segments behind.
"""

from __future__ import annotations

import math
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from depthlr.errors import DepthlrError
from depthlr.training.cell import Cell, Outcome, failed_outcome, outcome_or_failure
from depthlr.training.executor import Executor, Handle, Limits
from depthlr.training.serial import SerialRunner
from depthlr.training.task import Task

MakeTask = Callable[[int], Task]


class Workers(Executor):
    """A pool of processes. `make_task(size)` is called in the workers, so it must be picklable."""

    def __init__(self, make_task: MakeTask, workers: int, limits: Limits | None = None) -> None:
        super().__init__()
        self.capacity = workers
        self._limits = limits or Limits()
        self._context = get_context("spawn")
        self._ends, self._life = self._context.Pipe(duplex=False)  # a worker ends when nobody holds this end of it
        self._file = _write_task(make_task)
        self._workers = [self._start() for _ in range(workers)]

    def work(self, timeout: float | None = None) -> None:
        self._give()
        self._wait(timeout)
        for worker in self._workers:
            done = worker.at_work
            if done is None:
                continue
            outcome = worker.outcome(self._limits)
            if worker.lost:
                worker.kill()
            if outcome is not None:
                self._finish(done, outcome)
            elif worker.lost:
                self._lose(done, self._limits.retries, failed_outcome(worker.epitaph, worker.seconds))
        self._give()  # before the caller sees the outcomes: writing them takes a while

    def stop(self, handle: Handle) -> bool:
        for worker in self._workers:
            if worker.at_work is handle:
                worker.lost, worker.at_work = True, None
                worker.kill()
        return True

    def close(self) -> None:
        """End the processes, in the middle of a cell if need be: nobody is left to hear of it."""
        self._life.close()  # first: however the rest is interrupted, nothing runs on
        self._file.unlink(missing_ok=True)
        for worker in self._workers:
            worker.kill()

    def _give(self) -> None:
        """Cells to idle workers; one that was lost is replaced when there is a cell for it."""
        for place, worker in enumerate(self._workers):
            if worker.at_work is None and (handle := self._next()) is not None:
                if worker.lost:
                    worker = self._workers[place] = self._start()
                worker.give(handle)

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(self._file, self._ends, theirs), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _wait(self, timeout: float | None) -> None:
        """Until a worker has something to say, or a cell's time is up."""
        busy = [worker for worker in self._workers if worker.at_work is not None]
        if busy:
            left = min(math.inf if timeout is None else timeout, *(worker.left(self._limits) for worker in busy))
            connection.wait([worker.connection for worker in busy], None if left == math.inf else max(0.0, left))


class _Worker:
    """A process, our end of the pipe to it, and what it is at."""

    def __init__(self, process: Any, connection: Connection) -> None:
        self.process, self.connection = process, connection
        self.at_work: Handle | None = None
        self.started = 0.0  # when that cell began
        self.lost = False
        self.epitaph = ""  # why it was lost
        self._ready = False  # it has sent its first word

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def give(self, handle: Handle) -> None:
        self.started = time.monotonic()
        self.at_work = handle
        with suppress(OSError):  # it died while idle: `outcome` says so
            self.connection.send(handle.cell)

    def outcome(self, limits: Limits) -> Outcome | None:
        """The result of its cell, if there is one; or `lost`, with the reason."""
        assert self.at_work is not None
        try:
            while self.connection.poll():
                message = self.connection.recv()
                if message == _READY:
                    self._ready = True
                    self.started = time.monotonic()
                    continue
                self.at_work = None
                outcome: Outcome = message
                return outcome
        except (EOFError, OSError):
            self.process.join(timeout=10)
            if not self._ready:
                raise DepthlrError(DIED_AT_START) from None
            self._lose(f"its worker process died ({_exit_text(self.process.exitcode)})")
            return None
        if self.left(limits) <= 0:
            self._lose("")
            return failed_outcome(f"it took longer than {limits.timeout:g} s", self.seconds)
        return None

    def left(self, limits: Limits) -> float:
        """Seconds until its cell is given up."""
        return math.inf if limits.timeout is None or not self._ready else limits.timeout - self.seconds

    def kill(self) -> None:
        self.process.kill()  # one that is stopped, as by Ctrl-Z, hears of nothing else
        self.process.join()
        with suppress(OSError):  # another thread, which was training, closed it first
            self.connection.close()

    def _lose(self, epitaph: str) -> None:
        self.lost, self.epitaph, self.at_work = True, epitaph, None


DIED_AT_START = (
    "a worker process died as it started (out of memory, killed, or started by a script that does not sweep under "
    'if __name__ == "__main__"); what had finished is kept: mend that, or take fewer workers '
    "(depthlr sweep --workers 1), and go on."
)
_READY = "ready"


def _exit_text(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"


def _write_task(make_task: MakeTask) -> Path:
    """The task in a temporary file that only this user can read; `close` removes it, or else the workers do."""
    handle, name = tempfile.mkstemp(prefix="depthlr-", suffix=".pt")
    os.close(handle)
    try:
        torch.save(make_task, name)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError | RuntimeError):  # torch's writer raises the latter where the disk is full
            raise DepthlrError(
                f"the examples cannot be written to {tempfile.gettempdir()} for the worker processes ({error}): set "
                "TMPDIR to a folder with more room, or take one worker (depthlr sweep --workers 1), which needs none."
            ) from error
        raise
    return Path(name)


# -- in a worker process -----------------------------------------------------------------------------------------------
def _work(file: Path, ends: Connection, parent: Connection) -> None:
    """Train the cells that the parent sends, one after the other, until it is gone."""
    os.dup2(2, 1)  # standard output is for results: what a model prints, from C too, goes to standard error
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C, and closes the pool
    threading.Thread(target=_exit_with_parent, args=(file, ends), daemon=True).start()
    torch.set_num_threads(1)
    make_task = torch.load(file, mmap=True, weights_only=False)  # our own file: nobody else could write it
    runners: dict[int, SerialRunner] = {}
    parent.send(_READY)
    while True:
        cell = parent.recv()
        if cell.size not in runners:
            runners.clear()
        parent.send(_train_cell(make_task, runners, cell))


def _train_cell(make_task: MakeTask, runners: dict[int, SerialRunner], cell: Cell) -> Outcome:
    """Train a cell. Errors of the model's own code become an outcome."""

    def train() -> Outcome:
        if cell.size not in runners:
            runners[cell.size] = SerialRunner(make_task(cell.size))
        return runners[cell.size].run(cell)

    outcome = outcome_or_failure(train)
    if outcome.failure is not None:
        runners.clear()  # what a failed run left in the model is not trusted
    return outcome


def _exit_with_parent(file: Path, ends: Connection) -> None:
    """End this process when the other end closes, which also happens if the process of the pool is killed."""
    connection.wait([ends])
    file.unlink(missing_ok=True)
    os._exit(1)
