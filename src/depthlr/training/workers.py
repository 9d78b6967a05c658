"""Cells on several CPU cores: one process per core with one thread each, which is faster than threads for small models.

A cell that raises, exits, hangs or crashes its process is lost alone: its outcome says why, and the others continue.
The task, with its examples, goes to the workers in one temporary file that they map into memory. Shared memory
(`/dev/shm`) would need no file, but containers often have 64 MB of it, and a killed process leaves its segments behind.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from depthlr.errors import DepthlrError
from depthlr.training.cell import Outcome, outcome_or_failure
from depthlr.training.executor import Attempt, JobExecutor, Limits
from depthlr.training.serial import SerialExecutor
from depthlr.training.task import MakeTask

DIED_AT_START = (
    "a worker process died as it started (out of memory, killed, or started by a script that does not sweep under "
    'if __name__ == "__main__"); what had finished is kept: mend that, or take fewer workers '
    "(depthlr sweep --workers 1), and go on."
)
START_SECONDS = 300.0  # which a process has to import torch and load the task, besides the time limit of its cell
_READY = "ready"


class Workers(JobExecutor):
    """A pool of processes. `make_task(size)` is called in the workers, so it must be picklable."""

    def __init__(self, make_task: MakeTask, workers: int, limits: Limits | None = None) -> None:
        super().__init__(workers, limits)
        self._make_task = make_task
        self._context = get_context("spawn")
        self._life_reader, self._life_writer = self._context.Pipe(duplex=False)  # workers end when the writer is closed
        self._file: Path | None = None  # of the task; written when the first process starts
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []

    def close(self) -> None:
        """End the processes, also in the middle of a cell."""
        self._life_writer.close()  # first: then the workers end even if the rest is interrupted
        if self._file is not None:
            self._file.unlink(missing_ok=True)
        self._end(list(self._workers))

    def _submit(self, attempts: Sequence[Attempt]) -> list[_Worker]:
        """Give each cell to an idle worker. A process is started when there is a cell for it and none is idle."""
        chosen = []
        for attempt in attempts:
            worker = self._idle.pop() if self._idle else self._start()
            worker.attempt = attempt
            if not worker.ready:
                attempt.started = time.monotonic() + START_SECONDS
            with suppress(OSError):  # it died while idle, which is seen when its answer is read
                worker.connection.send(attempt.cell)
            chosen.append(worker)
        return chosen

    def _start(self) -> _Worker:
        if self._file is None:
            self._file = _write_task(self._make_task)
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(self._file, self._life_reader, theirs), daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.add(worker)
        return worker

    def _wait(self, jobs: Sequence[_Worker], timeout: float | None) -> Sequence[_Worker]:
        answering = connection.wait([worker.connection for worker in jobs], timeout)
        return [worker for worker in jobs if worker.connection in answering and self._read(worker)]

    def _read(self, worker: _Worker) -> bool:
        """Read what a worker sent. Return whether its cell is done, or the worker lost."""
        worker.outcome = None
        try:
            message = worker.connection.recv()
        except (EOFError, OSError):
            return True
        if message == _READY:
            assert worker.attempt is not None
            worker.ready, worker.attempt.started = True, time.monotonic()
            return False
        worker.outcome = message
        return True

    def _outcome(self, job: _Worker) -> Outcome | str:
        if job.outcome is not None:
            self._idle.append(job)
            return job.outcome
        job.process.join(timeout=10)
        if not job.ready:
            raise DepthlrError(DIED_AT_START)
        self._end([job])
        code = job.process.exitcode
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"its worker process died ({how})"

    def _end(self, jobs: Sequence[_Worker]) -> None:
        for worker in jobs:
            self._workers.discard(worker)
            worker.process.kill()  # a process that Ctrl-Z stopped reacts to no other signal
            worker.process.join()
            with suppress(OSError):  # another thread, which was training, closed it first
                worker.connection.close()


@dataclass(eq=False)
class _Worker:
    """A process, and our end of the pipe to it."""

    process: Any
    connection: Connection
    attempt: Attempt | None = None  # of its cell
    ready: bool = False  # it has sent its first word
    outcome: Outcome | None = None  # of its cell, once it is done


def _write_task(make_task: MakeTask) -> Path:
    """The task in a temporary file that only this user can read; `close` removes it, or else the workers do."""
    handle, name = tempfile.mkstemp(prefix="depthlr-", suffix=".pt")
    os.close(handle)
    try:
        torch.save(make_task, name)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError | RuntimeError):  # torch's writer raises the latter where the disk is full
            failed = f"the examples cannot be written to {tempfile.gettempdir()} for the worker processes ({error})"
            raise DepthlrError(f"{failed}: set TMPDIR to a folder with more room, or take --workers 1.") from error
        raise
    return Path(name)


# -- in a worker process -----------------------------------------------------------------------------------------------
def _work(file: Path, life: Connection, parent: Connection) -> None:
    """Train the cells that the parent sends, one after the other, until it is gone."""
    os.dup2(2, 1)  # standard output is for results: what a model prints, from C too, goes to standard error
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C, and closes the pool
    threading.Thread(target=_exit_with_parent, args=(file, life), daemon=True).start()
    torch.set_num_threads(1)
    make_task = torch.load(file, mmap=True, weights_only=False)  # our own file: nobody else could write it
    executor = SerialExecutor(make_task)
    parent.send(_READY)
    while True:
        parent.send(outcome_or_failure(partial(executor.run, parent.recv())))


def _exit_with_parent(file: Path, life: Connection) -> None:
    """End this process when the other end closes, which also happens if the process of the pool is killed."""
    connection.wait([life])
    file.unlink(missing_ok=True)
    os._exit(1)
