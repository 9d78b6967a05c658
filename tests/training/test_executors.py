"""The contract of executors: order, failure, retry, cancellation, time limit and lost workers, for each of them."""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

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
    handles = [executor.submit(cell) for cell in CELLS]
    assert [handle.cell for handle in handles] == CELLS
    last = handles[-1].result()  # before the others were looked at
    assert handles[-1].done()
    assert handles[-1].result() is last
    assert not handles[-1].cancel()
    for handle in handles:
        assert handle.result().losses[-1] == pytest.approx(kind.last_loss(handle.cell), rel=2e-4)
    assert set(executor.wait()) == set(handles)
    assert executor.wait() == []


@EXECUTORS
def test_polling_alone_finishes_a_cell(kind: Kind, opened) -> None:
    handle = opened(kind).submit(CELLS[0])
    while not handle.done():
        pass
    assert handle.result().failure is None


@EXECUTORS
def test_of_cells_that_fail_the_others_are_trained(kind: Kind, opened) -> None:
    found = dict(opened(kind, "raises").train(FAILING))
    assert {cell.seed: outcome.failure is None for cell, outcome in found.items()} == {0: True, 1: False, 2: True}
    assert "ValueError: no luck" in str(found[FAILING[1]].failure)
    assert found[FAILING[1]].diverged


@EXECUTORS
def test_a_cancelled_cell_is_not_trained_and_the_others_are(kind: Kind, opened) -> None:
    executor = opened(kind)
    handles = [executor.submit(cell) for cell in CELLS]
    assert handles[1].cancel()
    assert not handles[1].cancel()
    assert handles[1].done()
    with pytest.raises(CancelledError):
        handles[1].result()
    finished = []
    while new := executor.wait():
        finished += new
    assert set(finished) == {handles[0], handles[2], handles[3]}


@EXECUTORS
def test_training_that_is_left_cancels_what_is_not_finished(kind: Kind, opened) -> None:
    executor = opened(kind)
    training = executor.train(CELLS)
    next(training)
    training.close()
    while new := executor.wait():  # what had finished beside the first one
        assert all(handle.done() for handle in new)
    ((cell, outcome),) = executor.train(CELLS[:1])
    assert cell == CELLS[0]
    assert outcome.failure is None


@PROCESSES
def test_a_cell_under_way_can_be_cancelled(kind: Kind, opened) -> None:
    executor = opened(kind, "hangs")
    stuck = executor.submit(FAILING[1])
    assert executor.submit(FAILING[0]).result().failure is None
    assert not stuck.done()
    assert stuck.cancel()
    assert executor.submit(FAILING[2]).result().failure is None


@PROCESSES
def test_a_time_limit_fails_a_cell_that_hangs_and_it_is_not_tried_again(kind: Kind, opened) -> None:
    executor = opened(kind, "hangs", Limits(timeout=0.5))
    handle = executor.submit(FAILING[1])
    assert handle.result().failure == "it took longer than 0.5 s"
    assert handle.tries == 1


@PROCESSES
@pytest.mark.parametrize("retries", [0, 2])
def test_a_lost_worker_is_replaced_and_its_cell_tried_again(kind: Kind, opened, retries: int) -> None:
    executor = opened(kind, "killed", Limits(retries=retries))
    handles = [executor.submit(cell) for cell in FAILING]
    assert [handle.result().failure is None for handle in handles] == [True, False, True]
    assert re.search("died|lost", str(handles[1].result().failure))
    assert [handle.tries for handle in handles] == [1, 1 + retries, 1]


@PROCESSES
def test_a_cell_whose_worker_was_lost_once_is_trained(kind: Kind, opened, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("DIED", str(tmp_path / "died"))
    handle = opened(kind, "killed once").submit(FAILING[1])
    assert handle.result().failure is None
    assert handle.tries == 2


class Shuffled(Executor):
    """Finishes cells in the order that a list of numbers says."""

    def __init__(self, order: list[int], capacity: int) -> None:
        super().__init__()
        self.capacity, self.closed = capacity, False
        self._order, self._held = order, []

    def work(self, timeout: float | None = None) -> None:
        while len(self._held) < self.capacity and (handle := self._next()):
            self._held.append(handle)
        if self._held:
            handle = self._held.pop((self._order.pop() if self._order else 0) % len(self._held))
            self._finish(handle, Outcome(np.ones(1, np.float32), 0.0, False))

    def stop(self, handle) -> bool:
        self._held.remove(handle)
        return True

    def close(self) -> None:
        self.closed = True


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=20),
    st.lists(st.integers(0, 9), max_size=20),
    st.integers(1, 4),
    st.integers(0, 5),
)
def test_every_cell_is_finished_once_or_cancelled(cells, order, capacity, steps) -> None:
    """One runner is open at a time, whatever finishes first and is cancelled when, and none in the end."""
    opened: list[Shuffled] = []

    def open_runner(size: int) -> Shuffled:
        assert all(runner.closed for runner in opened)
        opened.append(Shuffled(order, capacity))
        return opened[-1]

    executor = BySize(open_runner)
    handles = [executor.submit(Cell(size, index, 0.1)) for index, (size, _) in enumerate(cells)]
    for _ in range(steps):
        executor.work()
    cancelled = [handle for handle, (_, give_up) in zip(handles, cells, strict=True) if give_up and handle.cancel()]
    finished = []
    while new := executor.wait():
        finished += new
    assert len(finished) + len(cancelled) == len(handles)
    assert set(finished) | set(cancelled) == set(handles)
    assert len(opened) <= 1 + sum(a != b for (a, _), (b, _) in pairwise(cells))
    executor.close()
    assert all(runner.closed for runner in opened)


def test_two_callers_of_one_executor_each_get_their_own_cells() -> None:
    executor = Shuffled([3, 1, 2, 0, 1], 4)
    first = executor.train(Cell(1, seed, 0.1) for seed in range(5))
    found = [next(first)[0].seed]
    assert [cell.seed for cell, _ in executor.train(Cell(2, seed, 0.1) for seed in range(3))] != []
    found += [cell.seed for cell, _ in first]
    assert sorted(found) == list(range(5))


def test_what_a_run_in_this_process_raises_is_the_reason_of_the_failure() -> None:
    class Odd(InProcess):
        def run(self, cell: Cell) -> Outcome:
            if cell.seed:
                raise ValueError("odd")
            return Outcome(np.ones(1, np.float32), 0.0, False)

    found = dict(Odd().train([Cell(1, 0, 0.1), Cell(1, 1, 0.1)]))
    assert [outcome.failure for outcome in found.values()] == [None, "ValueError: odd"]
