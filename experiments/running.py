"""Running experiments: deadlines, the provenance of a result, and sweeps that stop and resume."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import typer

from depthlr import check
from depthlr.data.examples import Examples
from depthlr.errors import DepthlrError, did_you_mean
from depthlr.study.description import Study
from depthlr.study.record import Environment, Record, current_environment, judge_of, make_record
from depthlr.study.results import Results
from depthlr.study.run import sweep
from depthlr.study.search import Estimate, Progress
from depthlr.study.store import Store
from depthlr.study.tasks import task_at
from depthlr.training.cell import Cell
from depthlr.training.device import default_device
from depthlr.training.executor import Executor
from depthlr.training.local import open_executor
from experiments.tables import Shape, an_object, or_else, read_text, shaped, write_json

SAMPLED = "sampled: a cell's time from a few steps at three sizes, linear in between, times the grid's rates and seeds"


class OutOfTime(Exception):
    """The deadline has passed. Finished work is kept."""


@dataclass(frozen=True)
class Deadline:
    """A moment of the performance counter. It is infinite if there is no limit."""

    moment: float = math.inf

    @staticmethod
    def after(seconds: float | None) -> Deadline:
        """The deadline in so many seconds.

        Args:
            seconds: From now. None sets no limit.
        """
        if seconds is None:
            return Deadline()
        if not seconds >= 0:  # nor is nan
            raise DepthlrError(f"{seconds:g} seconds are no time to work in: give 0 or more.")
        return Deadline(time.perf_counter() + seconds)

    def check(self) -> None:
        """Raise `OutOfTime` if the deadline has passed."""
        if time.perf_counter() >= self.moment:
            raise OutOfTime


class Timed(Progress):
    """Progress that ends a sweep when the time is spent.

    Args:
        deadline: when that is.
        progress: another object, which is told the same.
        done: called after every finished cell.
    """

    def __init__(self, deadline: Deadline, progress: Progress, done: Callable[[], None]) -> None:
        self._deadline, self._progress, self._done = deadline, progress, done

    def begins(self, known: Sequence[Record], damaged: Sequence[Cell], estimate: Estimate) -> None:
        self._progress.begins(known, damaged, estimate)

    def finished(self, record: Record, estimate: Estimate) -> None:
        self._progress.finished(record, estimate)
        self._done()
        if estimate.most:  # the last cell of all is worth its tail
            self._deadline.check()


PROVENANCE: Shape = {
    "device": check.text,
    "precision": check.text,
    "versions": an_object(dict.fromkeys(("depthlr", "torch", "numpy", "python"), check.text)),
    "data": an_object({"name": check.text, "examples": check.count, "digest": check.text}),
}


def provenance(precision: str, examples: Examples, ran: Environment | None = None) -> dict[str, Any]:
    """Where a result came from, in plain values for JSON.

    Args:
        precision: of the training.
        examples: what was trained on.
        ran: where it was trained; this process if None.
    """
    environment = ran or current_environment()
    return {
        "device": environment.device,
        "precision": precision,
        "versions": {
            "depthlr": environment.depthlr,
            "torch": environment.torch,
            "numpy": np.__version__,
            "python": environment.python,
        },
        "data": {"name": examples.name, "examples": len(examples), "digest": examples.digest},
    }


@dataclass
class Facts:
    """The times that a setting took and where they were measured, summed over calls.

    If several jobs share a device, each counts its share of the time.

    Args:
        study: The digest of the study. None if a store holds it, or in older files.
        provenance: Where the result came from; empty before anything was trained.
        sweep_seconds: The time of the sweep.
        carried_seconds: The time of training at carried rates.
        plain_cell_seconds: The time of a cell in the plain loop, by size, from a sample.
        plain_grid_seconds: The time of the whole grid in the plain loop, from a table whose samples are not kept.
        plain_grid_is: How that time was found.
        at_once: The largest number of jobs that shared the device.
    """

    study: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    sweep_seconds: float = 0.0
    carried_seconds: float = 0.0
    plain_cell_seconds: dict[int, float] = field(default_factory=dict)
    plain_grid_seconds: float | None = None
    plain_grid_is: str = SAMPLED
    at_once: int = 1

    @contextmanager
    def timing(
        self, what: Literal["sweep_seconds", "carried_seconds"], file: Path, at_once: int = 1
    ) -> Iterator[Callable[[], None]]:
        """Add the time spent inside the context, and write the facts, also after an error.

        Args:
            what: the entry to which the time is added.
            file: where the facts are written.
            at_once: how many jobs share the device.

        Yields:
            A function to call after every piece of work. It writes the time so far, in case the process is killed.
        """
        last = time.perf_counter()

        def add() -> None:
            nonlocal last
            now = time.perf_counter()
            setattr(self, what, getattr(self, what) + (now - last) / at_once)
            last = now
            self.write(file)

        def done() -> None:
            self.at_once = max(self.at_once, at_once)  # where nothing was left to do, nothing shared the device
            add()

        try:
            yield done
        finally:
            add()

    def write(self, file: Path) -> None:
        write_json(file, asdict(self))


def read_facts(file: Path) -> Facts:
    """The facts that an earlier call wrote, or empty ones.

    Args:
        file: the JSON file.
    """
    if not file.is_file():
        return Facts()
    text = read_text(file)
    try:
        return Facts(**shaped(text, KEPT))
    except ValueError as error:
        raise DepthlrError(f"{file} holds no facts of a setting ({error}): delete it; times begin anew.") from error


def _provenance(name: str, value: Any) -> dict[str, Any]:
    """Empty where nothing was trained yet."""
    found: dict[str, Any] = {} if value == {} else an_object(PROVENANCE)(name, value)
    return found


def _by_size(name: str, value: Any) -> dict[int, float]:
    """JSON's keys are text."""
    if not isinstance(value, dict):
        raise DepthlrError(f"{name} is no object")
    return {int(size): check.number(name, seconds) for size, seconds in value.items()}


KEPT: Shape = {
    "study": or_else(None, check.text),
    "provenance": _provenance,
    "sweep_seconds": check.number,
    "carried_seconds": check.number,
    "plain_cell_seconds": _by_size,
    "plain_grid_seconds": or_else(None, check.number),
    "plain_grid_is": or_else(SAMPLED, check.text),
    "at_once": or_else(1, check.count),
}


def do_nothing() -> None:
    """For a caller that need not know when a cell is finished."""


def sweep_study(
    study: Study,
    examples: Examples,
    depths: Mapping[int, int],
    store: Path,
    until: Deadline,
    *,
    held_out: Examples | None = None,
    progress: Progress | None = None,
    done: Callable[[], None] = do_nothing,
    workers: int | None = None,
    wrap: Callable[[Executor], Executor] = lambda executor: executor,
) -> Results:
    """Run a sweep, or what is left of it, until it is finished or the time is spent (`OutOfTime`).

    Args:
        study: what to sweep.
        examples: the data that the study names.
        depths: the effective depth at each size.
        store: the file that keeps the finished cells from call to call.
        until: when to stop; the cell in work is finished first.
        held_out: what cells are evaluated on, if the study says so.
        progress: what is told of every finished cell.
        done: called after every finished cell.
        workers: processes on a CPU; one for each core by default.
        wrap: Turns the executor into another, such as one that knows some cells already.
    """
    timed = Timed(until, progress or Progress(), done)
    with open_executor(partial(task_at, study, examples=examples, held_out=held_out), workers=workers) as executor:
        return sweep(study, wrap(executor), store, examples=examples, held_out=held_out, depths=depths, progress=timed)


def train_cells(
    study: Study,
    examples: Examples,
    cells: Iterable[Cell],
    store: Store,
    until: Deadline,
    *,
    held_out: Examples | None = None,
    done: Callable[[], None] = do_nothing,
    workers: int | None = None,
) -> None:
    """Train cells that the search did not ask for, each kept in `store` when it is finished.

    Args:
        study: what the cells belong to.
        examples: the data that the study names.
        cells: what to train.
        store: keeps the finished cells.
        until: when to stop; the cell in work is finished first.
        held_out: what cells are evaluated on, if the study says so.
        done: called after every finished cell.
        workers: processes on a CPU; one for each core by default.

    Raises:
        OutOfTime: The time is spent and cells are left.
    """
    missing = sorted(set(cells))
    if not missing:
        return  # workers take seconds to start
    judge = judge_of(study, examples)
    left = len(missing)
    with open_executor(partial(task_at, study, examples=examples, held_out=held_out), workers=workers) as executor:
        for cell, outcome in executor.train(missing):
            store.put(make_record(cell, outcome, judge))
            done()
            left -= 1
            if left:  # the last cell of all is worth its tail
                until.check()


def known_name(kind: str, name: str, known: Collection[str]) -> str:
    """The name itself, or an error if there is none such.

    Args:
        kind: what it is a name of.
        name: what the user wrote.
        known: the names that there are.
    """
    if name not in known:
        raise DepthlrError(f"There is no {kind} {name!r}{did_you_mean(name, known)}: choose from {', '.join(known)}.")
    return name


def precision_or_default(precision: str | None) -> str:
    """The given precision, or else bf16 on a GPU and fp32 on a CPU.

    Args:
        precision: what the user asked for.
    """
    return precision or ("bf16" if default_device() == "cuda" else "fp32")


def run_command(app: typer.Typer) -> None:
    """Run a command line. An error is printed on stderr, and the exit code is 2.

    Args:
        app: the command line.
    """
    try:
        app()
    except DepthlrError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
