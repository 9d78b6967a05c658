"""Lanes give the plain loop's numbers, however short a run is, and keep to one where a model draws."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.training.pretend_gpu import pretend_gpu  # noqa: F401 (a fixture)
from tests.training.tiny import tiny_task
from torch import nn

from depthlr.errors import DepthlrError
from depthlr.training import Cell, GraphRunner, Task
from depthlr.training.capturable import CapturableRun, draw_start
from depthlr.training.graphs import capture
from experiments.plain_loop import train_plainly


class Generator:
    """Plays a CUDA device's random generator."""

    def __init__(self) -> None:
        self.restored = False

    def clone_state(self) -> str:
        return "spare"

    def graphsafe_set_state(self, state: str) -> None:
        self.restored = state == "spare"


@pytest.mark.parametrize("fails", [False, True])
def test_a_capture_runs_once_is_replayed_and_restores_the_generator_only_if_it_fails(monkeypatch, fails: bool) -> None:
    generator, stream, log = Generator(), SimpleNamespace(device=SimpleNamespace(index=0)), []

    @contextmanager
    def graph(given, stream):
        log.append("begins")
        yield
        log.append("ends")

    def function() -> None:
        log.append("runs")
        if fails:
            raise RuntimeError("not permitted while a stream is captured")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay=lambda: log.append("replays")))
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "default_generators", (generator,))
    if fails:
        with pytest.raises(RuntimeError, match="not permitted"):
            capture(function, stream)
        assert log == ["begins", "runs"]
    else:
        capture(function, stream)()
        assert log == ["begins", "runs", "ends", "replays"]
    assert generator.restored == fails


CELLS = [Cell(2, seed, rate) for seed in (0, 1) for rate in (0.05, 0.2)]
CPU = torch.device("cpu")


class DropsByCall(nn.Module):
    """Has no module that draws."""

    def __init__(self) -> None:
        super().__init__()
        self.drop_rate = 0.3

    def forward(self, x):
        return F.dropout(x, self.drop_rate, self.training)


class Power(nn.Module):
    """Its `p` is an exponent."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x):
        return x**self.p


def ending_in(last: nn.Module) -> Task:
    def built() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 10), last)

    def initialize(model: nn.Module, seed: int) -> None:
        nn.init.normal_(model[1].weight, generator=torch.Generator().manual_seed(seed))
        nn.init.zeros_(model[1].bias)

    return replace(tiny_task(2), build=built, initialize=initialize)


def another_lane_pays(runner: GraphRunner) -> float:
    return 1 / runner.capacity


def assert_plain(task: Task, runner: GraphRunner, device: str = "cpu", *, rtol: float) -> None:
    """Every cell once, with the plain loop's losses."""
    found = []
    for cell, outcome in runner.train(CELLS):  # at once: where a CPU plays the GPU the next cell writes over its losses
        np.testing.assert_allclose(outcome.losses, train_plainly(task, cell, device).losses, rtol=rtol)
        found.append(cell)
    assert sorted(found) == sorted(CELLS)


@pytest.mark.usefixtures("pretend_gpu")
@pytest.mark.parametrize("steps", [1, 2, 3, 12, 40])
def test_lanes_give_the_plain_loops_numbers_however_short_a_run_is(steps: int) -> None:
    task = tiny_task(2, "resnet?width=4&batch_norm=true&blocks={}", optimizer="momentum", steps=steps)
    assert_plain(task, GraphRunner(task, "cpu"), rtol=2e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("steps", [1, 2, 12])
def test_lanes_of_a_gpu_give_the_plain_loops_numbers_however_short_a_run_is(steps: int) -> None:
    task = tiny_task(2, optimizer="momentum", steps=steps)
    runner = GraphRunner(task)
    try:
        assert_plain(task, runner, "cuda", rtol=1e-3)
    finally:
        runner.close()


class CannotBeCaptured(nn.Module):
    """Reads a number back from the GPU after it drew random ones, which no capture allows."""

    def forward(self, x):
        return F.dropout(x, 0.1) * (2.0 if float(x.detach().sum()) > 1e9 else 1.0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_model_with_dropout_that_cannot_be_captured_trains_without_capture() -> None:
    task = ending_in(CannotBeCaptured())
    with pytest.warns(UserWarning, match="cannot be captured"):
        runner = GraphRunner(task)
    try:
        assert runner.way != "captured"
        assert all(len(outcome.losses) == task.training.run_steps for _, outcome in runner.train(CELLS))
    finally:
        runner.close()


DRAWING = {
    "dropout": tiny_task(1, "resnet?width=4&dropout=0.3&blocks={}"),
    "stochastic depth": tiny_task(3, "vit?width=8&heads=2&patch=4&drop_path=0.2&blocks={}"),
    "random slopes": ending_in(nn.RReLU()),
    "dropout by a call": ending_in(DropsByCall()),
}
DETERMINED = {
    "vit": tiny_task(1, "vit?width=8&heads=2&patch=4&blocks={}"),
    "dropout of nothing": ending_in(nn.Dropout(0.0)),
    "a number that is no chance": ending_in(Power(2.0)),
}


@pytest.mark.parametrize("name", [*DRAWING, *DETERMINED])
def test_randomness_is_recognised_by_what_a_step_draws(name: str) -> None:
    task = {**DRAWING, **DETERMINED}[name]
    host = task.build()
    run = CapturableRun(task, host, task.examples, CPU, compiled=False)
    run.load(draw_start(task, host, 0, CPU), 0.1)
    assert run.draws_at_random() is (name in DRAWING)


@pytest.mark.usefixtures("pretend_gpu")
def test_a_model_that_draws_keeps_to_one_lane(monkeypatch) -> None:
    """Its numbers stay its own, though more lanes would pay."""
    monkeypatch.setattr(GraphRunner, "_seconds_a_step", another_lane_pays)
    assert GraphRunner(DETERMINED["vit"], "cpu", most=3).capacity == 3
    task = DRAWING["dropout by a call"]
    runner = GraphRunner(task, "cpu", most=3)
    assert runner.capacity == 1
    assert_plain(task, runner, rtol=2e-4)


@pytest.mark.usefixtures("pretend_gpu")
@pytest.mark.parametrize("lost", [float("inf"), float("-inf"), float("nan")])
def test_a_lane_that_is_not_finite_from_the_start_stops_early(lost: float) -> None:
    task = tiny_task(2, steps=64)
    hopeless = replace(task, loss_fn=lambda output, target: task.loss_fn(output, target) * 0 + lost)
    ((_, outcome),) = GraphRunner(hopeless, "cpu").train(CELLS[:1])
    assert outcome.diverged
    assert len(outcome.losses) < 64


def full(output, target):
    raise torch.cuda.OutOfMemoryError("full")


@pytest.mark.usefixtures("pretend_gpu")
def test_a_gpu_without_room_for_one_lane_is_a_sentence() -> None:
    with pytest.raises(DepthlrError, match=r"^a model of this size does not fit on the GPU .* smaller batch or model"):
        GraphRunner(replace(tiny_task(2), loss_fn=full), "cpu")


@pytest.mark.usefixtures("pretend_gpu")
def test_a_gpu_without_room_for_another_lane_takes_fewer(monkeypatch) -> None:
    opened = []
    open_lane = GraphRunner._open_lane

    def open_at_most_three(self: GraphRunner):
        if len(opened) == 3:
            raise torch.cuda.OutOfMemoryError("full")
        opened.append(open_lane(self))
        return opened[-1]

    monkeypatch.setattr(GraphRunner, "_open_lane", open_at_most_three)
    monkeypatch.setattr(GraphRunner, "_seconds_a_step", another_lane_pays)
    assert GraphRunner(tiny_task(2), "cpu").capacity == 2
