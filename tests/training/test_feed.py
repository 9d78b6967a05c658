"""Data that stay on the host train like the same data in memory, on every runner."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from tests.training.pretend_gpu import pretend_gpu  # noqa: F401 (a fixture)
from tests.training.tiny import tiny_task

from depthlr.data import DataSet, load_digits
from depthlr.data.batches import batch_order
from depthlr.data.examples import split
from depthlr.errors import DepthlrError
from depthlr.training import Cell, GraphRunner, SerialRunner, Task, Workers, try_step
from depthlr.training.feed import Feed

CELLS = [Cell(2, seed, rate) for seed in (0, 1) for rate in (0.05, 0.2)]
CPU = torch.device("cpu")
RECIPES = [
    {},
    {"accumulate": 4, "optimizer": "adamw", "clip": 1.0},
    {"augment": ("flip", "mixup=0.2"), "ema": 0.9},
]


@dataclass(frozen=True, eq=False)
class OnHost:
    """A data set in memory that says it is not."""

    whole: DataSet
    broken: int | None = None  # an example that cannot be read
    on_host = True
    name, classes, attribution, input = "digits", 10, "", "1x8x8"

    @property
    def digest(self) -> str:
        return self.whole.digest

    def __len__(self) -> int:
        return len(self.whole)

    def to(self, device):
        return self

    def batch(self, indices):
        assert indices.device == CPU
        if self.broken is not None and bool((indices == self.broken).any()):
            raise OSError("the disk is gone")
        return self.whole.batch(indices)


def on_host(task: Task) -> Task:
    held_out = None if task.held_out is None else replace(task.held_out, whole=OnHost(load_digits()))
    return replace(task, examples=OnHost(load_digits()), held_out=held_out)


def evaluated_task(size: int, **training) -> Task:
    held_out = split(load_digits(), 300)[1]
    return replace(tiny_task(size, evaluate_at=(0.5,), **training), held_out=held_out)


def host_task(size: int) -> Task:
    return on_host(evaluated_task(size))


def assert_same(found, expected) -> None:
    found, expected = dict(found), dict(expected)
    assert set(found) == set(expected) == set(CELLS)
    for cell, outcome in expected.items():
        np.testing.assert_array_equal(found[cell].losses, outcome.losses)
        assert found[cell].evaluations == outcome.evaluations
        assert len(outcome.evaluations) == 2


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_a_serial_runner_gives_the_same_bits(recipe) -> None:
    task = evaluated_task(2, **recipe)
    assert_same(SerialRunner(on_host(task)).train(CELLS), SerialRunner(task).train(CELLS))


def test_worker_processes_give_the_same_bits() -> None:
    pool = Workers(host_task, 2)
    try:
        assert_same(pool.train(CELLS), SerialRunner(evaluated_task(2)).train(CELLS))
    finally:
        pool.close()


@pytest.mark.usefixtures("pretend_gpu")
@pytest.mark.parametrize("recipe", RECIPES, ids=str)
@pytest.mark.parametrize("steps", [1, 12])
def test_lanes_give_the_same_bits(recipe, steps: int, monkeypatch) -> None:
    task = evaluated_task(2, **recipe, steps=steps)
    monkeypatch.setattr(GraphRunner, "_seconds_a_step", lambda runner: 1 / runner.capacity)
    expected, runner = GraphRunner(task, "cpu", most=4), GraphRunner(on_host(task), "cpu", most=4)
    assert runner.capacity == expected.capacity == 4
    for (cell, one), (_, other) in zip(runner.train(CELLS), expected.train(CELLS), strict=True):
        np.testing.assert_array_equal(one.losses, other.losses, err_msg=str(cell))
        assert one.evaluations == other.evaluations


@pytest.mark.usefixtures("pretend_gpu")
def test_lanes_are_timed_with_their_reading_and_loaders_keep_to_one() -> None:
    assert GraphRunner(on_host(evaluated_task(2)), "cpu", most=2).capacity >= 1
    assert GraphRunner(replace(on_host(evaluated_task(2)), loaders=2), "cpu").capacity == 1


@pytest.mark.parametrize("loaders", [0, 2])
def test_loaders_read_the_batches_of_the_order(loaders: int) -> None:
    examples = OnHost(load_digits())
    feed = Feed(examples, 8, 5, CPU)
    feed._loaders = loaders
    order = torch.randperm(40).view(8, 5)
    state = torch.get_rng_state()
    for _ in range(2):  # a feed begins again as often as there are cells
        feed.restart(order)
        for indices in order:
            feed.advance()
            for read, expected in zip(feed.batch(feed.take()), examples.batch(indices), strict=True):
                assert torch.equal(read, expected)
    assert torch.equal(torch.get_rng_state(), state)  # a loader's own seed is not drawn from it


def test_the_order_of_a_seed_is_drawn_once(monkeypatch) -> None:
    drawn = []
    monkeypatch.setattr(
        "depthlr.training.task.batch_order", lambda *sizes: drawn.append(sizes[-1]) or batch_order(*sizes)
    )
    list(SerialRunner(tiny_task(2)).train([*CELLS, *CELLS]))
    assert drawn == [0, 1]


def test_buffers_stay_where_they_are() -> None:
    """A captured step reads the same addresses at every replay."""
    feed = Feed(OnHost(load_digits()), 4, 5, CPU)
    feed.restart(torch.arange(20).view(4, 5))
    places = set()
    for _ in range(4):
        feed.advance()
        places.add((*(buffer.data_ptr() for buffer in feed._buffers), feed.take().data_ptr()))
    assert len(places) == 1


def test_on_a_cpu_the_cores_train_and_none_reads_ahead() -> None:
    assert Feed(OnHost(load_digits()), 4, 5, CPU, 2)._loaders == 0


@pytest.mark.parametrize("loaders", [0, 1])
def test_an_example_that_cannot_be_read_later_is_the_same_sentence(loaders: int) -> None:
    feed = Feed(OnHost(load_digits(), broken=7), 2, 5, CPU)
    feed._loaders = loaders
    feed.restart(torch.arange(10).view(2, 5))
    feed.advance()
    with pytest.raises(DepthlrError, match=r"^a batch of digits could not be read \(OSError: the disk is gone\)\.$"):
        feed.advance()


def test_an_example_that_cannot_be_read_is_one_sentence() -> None:
    task = replace(tiny_task(2), examples=OnHost(load_digits(), broken=0))
    with pytest.raises(DepthlrError, match=r"a batch of digits could not be read \(OSError: the disk is gone\)"):
        try_step(task)
