"""A cell that fails is lost alone, whatever its model does, and its outcome says why."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tests.training.pretend_gpu import pretend_gpu  # noqa: F401 (a fixture)
from tests.training.tiny import HangingTask, failing_task

from depthlr.errors import DepthlrError
from depthlr.training import Cell, GraphRunner, Limits, Workers
from depthlr.training.local import open_executor

CELLS = [Cell(1, seed, 0.1) for seed in (0, 1, 2)]
REASONS = {
    "raises": "the model failed on a batch (ValueError: no luck)",
    "exits": "the model, its loss or its data called sys.exit(3)",
    "hangs": "it took longer than 1 s",
    "segmentation fault": "its worker process died (signal SIGSEGV)",
    "killed": "its worker process died (signal SIGKILL)",
    "memory": "the model failed on a batch (MemoryError: no message)",
}


@pytest.mark.parametrize("how", [how for how in REASONS if how != "hangs"])
def test_a_worker_loses_the_one_cell_that_fails(how: str) -> None:
    pool = Workers(partial(failing_task, how=how), 2)
    try:
        found = dict(pool.train(CELLS))
        again = dict(pool.train(CELLS[:1]))
    finally:
        pool.close()
    assert {cell.seed: outcome.failure for cell, outcome in found.items()} == {0: None, 1: REASONS[how], 2: None}
    assert found[CELLS[1]].diverged
    assert np.array_equal(again[CELLS[0]].losses, found[CELLS[0]].losses)


def test_a_cell_that_hangs_is_given_up_and_the_pool_goes_on() -> None:
    pool = Workers(partial(failing_task, how="hangs"), 1, Limits(timeout=1.0))
    try:
        ((_, hung),) = pool.train(CELLS[1:2])
        pool._limits = Limits()
        ((_, outcome),) = pool.train(CELLS[:1])
    finally:
        pool.close()
    assert hung.failure == REASONS["hangs"]
    assert outcome.failure is None


def test_a_worker_that_hangs_while_it_builds_the_model_is_given_up(monkeypatch) -> None:
    monkeypatch.setenv("HANGS", "build")
    assert failure_and_next(monkeypatch) == (REASONS["hangs"], None)


def test_a_worker_that_hangs_while_it_starts_is_given_up(monkeypatch) -> None:
    """It never says that it is ready: the task does not load."""
    monkeypatch.setattr("depthlr.training.workers.START_SECONDS", 0.0)
    monkeypatch.setenv("HANGS", "load")
    assert failure_and_next(monkeypatch) == (REASONS["hangs"], None)


def failure_and_next(monkeypatch) -> tuple[str | None, str | None]:
    """How a cell fails in a worker that hangs, and the next cell in a worker that does not."""
    pool = Workers(HangingTask(), 1, Limits(timeout=1.0))
    try:
        ((_, hung),) = pool.train(CELLS[:1])
        monkeypatch.delenv("HANGS")
        pool._limits = Limits()
        ((_, outcome),) = pool.train(CELLS[:1])
    finally:
        pool.close()
    return hung.failure, outcome.failure


@pytest.mark.parametrize("how", ["raises", "exits", "memory"])
def test_in_this_process_one_cell_is_lost_too(how: str) -> None:
    with open_executor(partial(failing_task, how=how), device="cpu", workers=1) as executor:
        found = dict(executor.train(CELLS))
    assert {cell.seed: outcome.failure for cell, outcome in found.items()} == {0: None, 1: REASONS[how], 2: None}


def test_a_time_limit_holds_with_one_worker() -> None:
    limits = Limits(timeout=1.0)
    with open_executor(partial(failing_task, how="hangs"), device="cpu", workers=1, limits=limits) as executor:
        ((_, outcome),) = executor.train(CELLS[1:2])
    assert outcome.failure == REASONS["hangs"]


@pytest.mark.usefixtures("pretend_gpu")
def test_a_lane_loses_the_one_cell_that_fails() -> None:
    runner = GraphRunner(failing_task(1, "raises"), "cpu", most=2)
    found = dict(runner.train(CELLS))
    assert {cell.seed: outcome.failure for cell, outcome in found.items()} == {0: None, 1: REASONS["raises"], 2: None}


@pytest.mark.usefixtures("pretend_gpu")
def test_a_lane_gives_a_cell_up_after_its_time() -> None:
    runner = GraphRunner(failing_task(1, "raises"), "cpu", most=1, timeout=1e-9)
    ((_, outcome),) = runner.train(CELLS[:1])
    assert "took longer than" in outcome.failure


def test_a_limit_of_no_time_is_refused() -> None:
    with pytest.raises(DepthlrError, match="cannot be kept"):
        Limits(timeout=0)
