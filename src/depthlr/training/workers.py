"""Cells on several CPU cores: one process a core, one thread each, which beats threads on small models.

The task, with its examples, goes to the workers in one temporary file that they map into memory. Shared memory
(`/dev/shm`) would need no file, but containers often have 64 MB of it, and a killed process leaves its segments behind.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from depthlr.errors import DepthlrError
from depthlr.training.cell import Cell, Outcome
from depthlr.training.serial import SerialRunner
from depthlr.training.task import Task

MakeTask = Callable[[int], Task]

_make_task: MakeTask  # of a worker process
_runners: dict[int, SerialRunner] = {}  # of a worker process, by size


class Workers:
    """A pool that outlives sizes. `make_task(size)` is called in the workers, so it must be picklable."""

    def __init__(self, make_task: MakeTask, workers: int) -> None:
        context = get_context("spawn")
        ends, self._life = context.Pipe(duplex=False)  # a worker ends when nobody holds this end of it
        self._file = _written(make_task)
        self._pool = ProcessPoolExecutor(workers, context, _start, (self._file, ends))

    def train(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
        futures = {self._pool.submit(_train, cell): cell for cell in cells}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as error:
            raise DepthlrError(
                "a worker process died (out of memory, killed, or started by a script that does not sweep under "
                'if __name__ == "__main__"); what had finished is kept: mend that, or take fewer workers '
                "(depthlr sweep --workers 1), and go on."
            ) from error
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """End the processes, in the middle of a cell if need be: nobody is left to hear of it."""
        self._life.close()  # first: however the waiting below is interrupted, nothing runs on
        self._file.unlink(missing_ok=True)
        for process in list((self._pool._processes or {}).values()):
            process.kill()  # one that is stopped, as by Ctrl-Z, hears of nothing else
        self._pool.shutdown(cancel_futures=True)


def _written(make_task: MakeTask) -> Path:
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


def _start(file: Path, ends: Connection) -> None:
    global _make_task
    os.dup2(2, 1)  # standard output is for results: what a model prints, from C too, goes to standard error
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C, and closes the pool
    threading.Thread(target=_die_with_the_pool, args=(file, ends), daemon=True).start()
    torch.set_num_threads(1)
    _make_task = torch.load(file, mmap=True, weights_only=False)  # our own file: nobody else could write it


def _die_with_the_pool(file: Path, ends: Connection) -> None:
    """The other end closes with the pool, and with the process that holds it, however that dies."""
    connection.wait([ends])
    file.unlink(missing_ok=True)
    os._exit(1)


def _train(cell: Cell) -> Outcome:
    if cell.size not in _runners:
        _runners.clear()
        _runners[cell.size] = SerialRunner(_make_task(cell.size))
    ((_, outcome),) = _runners[cell.size].train([cell])
    return outcome
