"""The contract of executors: order, failure, retry, cancellation, time limit and lost workers, for each of them."""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training import command_cell
from tests.training.pretend_gpu import pretend_gpu  # noqa: F401 (a fixture)
from tests.training.tiny import failing_task, tiny_task

from depthlr.cluster import RayExecutor, SlurmExecutor
from depthlr.training import (
    BySize,
    Cell,
    Commands,
    Executor,
    GraphRunner,
    InProcess,
    Limits,
    Outcome,
    SerialRunner,
    Task,
    Workers,
)
from depthlr.training.executor import JobExecutor
from experiments.plain_loop import train_plainly

CELLS = [Cell(2, 0, 0.05), Cell(3, 0, 0.05), Cell(2, 1, 0.05), Cell(3, 1, 0.1)]
FAILING = [Cell(1, seed, 0.1) for seed in (0, 1, 2)]  # the second one fails


@dataclass(frozen=True)
class Kind:
    """How to open one kind of executor, and what it can do."""

    open: Callable[[str, Limits], Executor]  # of cells that work, or of which seed 1 fails in some way
    last_loss: Callable[[Cell], float]  # of a cell that works
    processes: bool  # cells run in processes of their own, which can be ended and lost


def task_that(how: str, size: int) -> Task:
    return tiny_task(size) if how == "works" else failing_task(size, how)


def serial(how: str, limits: Limits) -> Executor:
    return BySize(lambda size: SerialRunner(task_that(how, size)))


def lanes(how: str, limits: Limits) -> Executor:
    return BySize(lambda size: GraphRunner(task_that(how, size), "cpu", most=2, timeout=limits.timeout))


def workers(how: str, limits: Limits) -> Executor:
    return Workers(partial(task_that, how), 2, limits)


def commands(how: str, limits: Limits) -> Executor:
    script = shlex.quote(command_cell.__file__)
    return Commands(f"{sys.executable} -S {script} {shlex.quote(how)} {{size}} {{seed}} {{rate}}", 2, limits)


def plain(cell: Cell) -> float:
    return float(train_plainly(tiny_task(cell.size), cell).losses[-1])


def scripted(cell: Cell) -> float:
    return command_cell.loss_at(cell.size, cell.seed, cell.rate)


def ray(how: str, limits: Limits) -> Executor:
    pytest.importorskip("ray")
    return RayExecutor(partial(task_that, how), capacity=2, num_cpus=0.5, limits=limits)


def slurm(how: str, limits: Limits) -> Executor:
    pytest.importorskip("submitit")
    folder = tempfile.TemporaryDirectory(prefix="depthlr-jobs-", ignore_cleanup_errors=True)
    executor = SlurmExecutor(
        partial(task_that, how), folder.name, capacity=2, limits=limits, cluster="local", poll=0.05
    )
    executor.folder = folder  # lives as long as the executor
    return executor


KINDS = {
    "serial": Kind(serial, plain, False),
    "lanes": Kind(lanes, plain, False),
    "workers": Kind(workers, plain, True),
    "commands": Kind(commands, scripted, True),
    "ray": Kind(ray, plain, True),
    "slurm": Kind(slurm, plain, True),
}
SEPARATE = {name: kind for name, kind in KINDS.items() if kind.processes}
EXECUTORS = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
PROCESSES = pytest.mark.parametrize("kind", SEPARATE.values(), ids=SEPARATE)


@pytest.fixture
def opened(pretend_gpu):  # noqa: F811
    """Opens executors, and closes them at the end."""
    executors = []

    def open(kind: Kind, how: str = "works", limits: Limits | None = None) -> Executor:
        executors.append(kind.open(how, limits or Limits()))
        return executors[-1]

    yield open
    for executor in executors:
        executor.close()


@EXECUTORS
def test_cells_of_several_sizes_have_the_losses_of_a_plain_loop(kind: Kind, opened) -> None:
    executor = opened(kind)
    found = list(executor.train(CELLS))
    assert sorted(cell for cell, _ in found) == sorted(CELLS)
    for cell, outcome in found:
        assert outcome.losses[-1] == pytest.approx(kind.last_loss(cell), rel=2e-4)
    assert list(executor.train([])) == []


@EXECUTORS
def test_of_cells_that_fail_the_others_are_trained(kind: Kind, opened) -> None:
    found = dict(opened(kind, "raises").train(FAILING))
    assert {cell.seed: outcome.failure is None for cell, outcome in found.items()} == {0: True, 1: False, 2: True}
    assert "ValueError: no luck" in str(found[FAILING[1]].failure)
    assert found[FAILING[1]].diverged


@EXECUTORS
def test_training_that_is_left_ends_what_is_not_finished(kind: Kind, opened) -> None:
    executor = opened(kind)
    training = executor.train(CELLS)
    next(training)
    training.close()
    ((cell, outcome),) = executor.train(CELLS[:1])
    assert cell == CELLS[0]
    assert outcome.failure is None


@PROCESSES
def test_a_cell_that_hangs_is_ended_when_training_is_left(kind: Kind, opened) -> None:
    executor = opened(kind, "hangs")
    training = executor.train(FAILING[:2])
    assert next(training)[1].failure is None
    training.close()
    ((_, outcome),) = executor.train(FAILING[2:])
    assert outcome.failure is None


@PROCESSES
def test_a_time_limit_fails_a_cell_that_hangs_and_it_is_not_tried_again(kind: Kind, opened) -> None:
    executor, begun = counted(opened(kind, "hangs", Limits(timeout=0.5)))
    ((_, outcome),) = executor.train(FAILING[1:2])
    assert outcome.failure == "it took longer than 0.5 s"
    assert begun == FAILING[1:2]


@PROCESSES
@pytest.mark.parametrize("retries", [0, 2])
def test_a_lost_worker_is_replaced_and_its_cell_tried_again(kind: Kind, opened, retries: int) -> None:
    executor, begun = counted(opened(kind, "killed", Limits(retries=retries)))
    found = dict(executor.train(FAILING))
    assert [found[cell].failure is None for cell in FAILING] == [True, False, True]
    assert re.search("died|lost", str(found[FAILING[1]].failure))
    assert [begun.count(cell) for cell in FAILING] == [1, 1 + retries, 1]


@PROCESSES
def test_a_cell_whose_worker_was_lost_once_is_trained(kind: Kind, opened, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("DIED", str(tmp_path / "died"))
    executor, begun = counted(opened(kind, "killed once"))
    ((_, outcome),) = executor.train(FAILING[1:2])
    assert outcome.failure is None
    assert begun == 2 * FAILING[1:2]


def counted(executor: JobExecutor) -> tuple[JobExecutor, list[Cell]]:
    """The executor, and the cells of the jobs that it has begun."""
    begun: list[Cell] = []
    submit = executor._submit

    def counting(attempts):
        begun.extend(attempt.cell for attempt in attempts)
        return submit(attempts)

    executor._submit = counting
    return executor, begun


class Ordered(JobExecutor):
    """Finishes cells in the order that a list of numbers says."""

    def __init__(self, order: list[int], capacity: int) -> None:
        super().__init__(capacity)
        self.closed, self._order = False, order

    def _submit(self, attempts):
        return [attempt.cell for attempt in attempts]

    def _wait(self, jobs, timeout):
        return [jobs[(self._order.pop() if self._order else 0) % len(jobs)]]

    def _outcome(self, job) -> Outcome:
        return Outcome(np.ones(1, np.float32), 0.0, False)

    def _end(self, jobs) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(1, 3), max_size=20),
    st.lists(st.integers(0, 9), max_size=20),
    st.integers(1, 4),
    st.integers(1, 21),
)
def test_every_cell_is_finished_once_unless_training_is_left(sizes, order, capacity, steps) -> None:
    """One runner is open at a time, whatever finishes first, and none in the end."""
    opened: list[Ordered] = []

    def open_runner(size: int) -> Ordered:
        assert all(runner.closed for runner in opened)
        opened.append(Ordered(order, capacity))
        return opened[-1]

    executor = BySize(open_runner)
    cells = [Cell(size, index, 0.1) for index, size in enumerate(sizes)]
    with closing(executor.train(cells)) as training:
        finished = [cell for cell, _ in islice(training, steps)]
    assert len(set(finished)) == len(finished) == min(steps, len(cells))
    assert set(finished) <= set(cells)
    assert len(opened) <= 1 + sum(a != b for a, b in pairwise(sizes))
    executor.close()
    assert all(runner.closed for runner in opened)


def test_what_a_run_in_this_process_raises_is_the_reason_of_the_failure() -> None:
    class Odd(InProcess):
        def run(self, cell: Cell) -> Outcome:
            if cell.seed:
                raise ValueError("odd")
            return Outcome(np.ones(1, np.float32), 0.0, False)

    found = dict(Odd().train([Cell(1, 0, 0.1), Cell(1, 1, 0.1)]))
    assert [outcome.failure for outcome in found.values()] == [None, "ValueError: odd"]
