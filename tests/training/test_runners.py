"""Every runner gives the plain loop's numbers."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.tiny import (
    endless_task,
    held_task,
    printing_task,
    tiny_task,
    unreduced,
    unreduced_task,
)
from torch import nn

from depthlr import check
from depthlr.data import load_digits
from depthlr.data.examples import split
from depthlr.errors import DepthlrError
from depthlr.optimizers import OPTIMIZERS, CapturedMuon
from depthlr.training import (
    Cell,
    Executor,
    Outcome,
    SerialRunner,
    Training,
    Workers,
    local,
    mean_cross_entropy,
    try_step,
)
from depthlr.training.capturable import CapturableRun, compile_repeated, draw_start
from depthlr.training.cell import has_diverged
from depthlr.training.executor import Attempt
from depthlr.training.local import open_executor
from depthlr.training.task import Task, WeightAverage, copy_model
from depthlr.training.training import SCHEDULES, WARMING, factors_of
from experiments.plain_loop import train_plainly

CELLS = [Cell(2, 0, 0.05), Cell(2, 1, 0.05), Cell(2, 0, 0.2)]
PATTERNS = {
    "mlp": "mlp?width=8&layers={}",
    "cnn": "cnn?width=4&layers={}",
    "resnet + bn": "resnet?width=4&batch_norm=true&blocks={}",
    "resnet + dropout": "resnet?width=4&dropout=0.3&blocks={}",
    "vit": "vit?width=8&heads=2&patch=4&blocks={}",
}


def stepped(task: Task, cell: Cell) -> np.ndarray:
    """The captured step, run eagerly."""
    cpu, host = torch.device("cpu"), task.build()
    stepper = CapturableRun(task, host, task.examples, cpu, compiled=False)
    for _ in range(2):  # a second run must not remember the first
        stepper.load(draw_start(task, host, cell.seed, cpu), cell.rate)
        torch.manual_seed(cell.seed)
        for _ in range(task.training.steps):
            stepper()
    return stepper.losses.numpy()


@pytest.mark.parametrize("name", PATTERNS)
def test_the_serial_runner_equals_the_plain_loop_to_the_last_bit(name: str) -> None:
    task = tiny_task(2, PATTERNS[name])
    for cell, outcome in SerialRunner(task).train(CELLS):
        assert np.array_equal(outcome.losses, train_plainly(task, cell).losses)
        assert not outcome.diverged


def test_an_evaluation_equals_that_of_the_plain_loop() -> None:
    # 96 is a multiple of the batch: the runner's equal batches leave no example out
    task = replace(tiny_task(2, PATTERNS["resnet + bn"]), held_out=split(load_digits(), 96)[1])
    expected = train_plainly(task, CELLS[0]).evaluations[0]
    ((_, outcome),) = SerialRunner(task).train(CELLS[:1])
    assert outcome.evaluations[-1].loss == pytest.approx(expected.loss, rel=1e-6)
    assert outcome.evaluations[-1].steps == expected.steps


def test_frozen_weights_stay_as_they_are_in_every_runner() -> None:
    task = tiny_task(2, PATTERNS["mlp"])

    def frozen() -> nn.Module:
        model = task.build()
        next(model.parameters()).requires_grad_(False)
        return model

    half = replace(task, build=frozen)
    expected = train_plainly(half, CELLS[0]).losses
    ((_, outcome),) = SerialRunner(half).train(CELLS[:1])
    assert np.array_equal(outcome.losses, expected)
    assert stepped(half, CELLS[0]) == pytest.approx(expected, rel=1e-4)
    assert not np.array_equal(expected, train_plainly(task, CELLS[0]).losses)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_and_schedules_equal_the_plain_loop(optimizer: str) -> None:
    task = tiny_task(2, PATTERNS["mlp"], optimizer=optimizer, schedule="warmup-cosine", warmup=0.3, weight_decay=0.01)
    expected = train_plainly(task, CELLS[0])
    ((_, outcome),) = SerialRunner(task).train(CELLS[:1])
    assert np.array_equal(outcome.losses, expected.losses)
    # The captured step orders its sums otherwise; Muon's bf16 iteration makes that visible.
    tolerance = 2e-2 if optimizer == "muon" else 1e-4
    np.testing.assert_allclose(stepped(task, CELLS[0]), expected.losses, rtol=tolerance)


# Dropout draws its mask in memory order, which channels-last changes: the same chances, other numbers.
@pytest.mark.parametrize("name", [n for n in PATTERNS if "dropout" not in n])
def test_the_captured_step_equals_the_plain_loop(name: str) -> None:
    task = tiny_task(2, PATTERNS[name])
    np.testing.assert_allclose(stepped(task, CELLS[0]), train_plainly(task, CELLS[0]).losses, rtol=2e-4)


def test_workers_give_the_same_numbers_in_any_order() -> None:
    pool = Workers(tiny_task, workers=2)
    try:
        found = dict(pool.train([*CELLS, Cell(3, 0, 0.1)]))
    finally:
        pool.close()
    for cell, outcome in found.items():
        assert np.array_equal(outcome.losses, train_plainly(tiny_task(cell.size), cell).losses)
    assert len(found) == 4


def test_closing_ends_the_workers_in_the_middle_of_a_cell() -> None:
    pool = Workers(endless_task, workers=1)
    process = begun(pool)
    waiting = threading.Thread(target=lambda: pool._wait([*pool._workers], None), daemon=True)
    waiting.start()
    closing = threading.Thread(
        target=pool.close, daemon=True
    )  # a close that hangs is to fail, and not to hang the test
    closing.start()
    for thread in (closing, waiting):
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert not process.is_alive()


def begun(pool: Workers) -> Any:
    """The process of a pool of one worker, which has been given a cell."""
    pool._submit([Attempt(CELLS[0])])
    (process,) = [worker.process for worker in pool._workers]
    return process


def test_an_interrupted_close_ends_the_workers_too(monkeypatch) -> None:
    def interrupted(job) -> None:
        raise KeyboardInterrupt

    pool = Workers(endless_task, workers=1)
    process = begun(pool)
    monkeypatch.setattr(pool, "_end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pool.close()
    process.join(timeout=60)
    assert process.exitcode == 1
    assert not pool._file.exists()


class EndsTheProcess:
    """Ends the process that loads it."""

    def __reduce__(self):
        return os._exit, (9,)


def test_a_worker_that_dies_as_it_starts_is_a_sentence_with_the_usual_reason() -> None:
    pool = Workers(EndsTheProcess(), workers=1)
    try:
        with pytest.raises(DepthlrError, match=r"worker process died as it started .*__main__.* is kept"):
            list(pool.train(CELLS[:1]))
    finally:
        pool.close()


def test_a_pool_that_is_forgotten_leaves_no_process() -> None:
    pool = Workers(endless_task, workers=1)
    process = begun(pool)
    pool._life_writer.close()  # as when this process dies
    process.join(timeout=60)
    assert process.exitcode == 1


def test_workers_need_no_shared_memory_and_leave_no_file(monkeypatch, tmp_path) -> None:
    def small(storage, *arguments):
        raise RuntimeError("unable to write to shared memory: No space left on device")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for share in ("_share_fd_cpu_", "_share_filename_cpu_"):
        monkeypatch.setattr(torch.UntypedStorage, share, small)
    pool = Workers(partial(held_task, load_digits()), workers=1)
    try:
        assert list(tmp_path.iterdir()) == []  # nothing is to be trained yet
        ((cell, outcome),) = pool.train(CELLS[:1])
        assert len(list(tmp_path.iterdir())) == 1
    finally:
        pool.close()
    assert np.array_equal(outcome.losses, train_plainly(tiny_task(2), cell).losses)
    assert list(tmp_path.iterdir()) == []


def test_a_limit_on_the_size_of_files_is_a_sentence_and_leaves_no_file(tmp_path) -> None:
    script = (
        "import resource, torch\n"
        "from depthlr.training import Cell, Workers\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "list(Workers(torch.zeros(1 << 16), workers=1).train([Cell(2, 0, 0.1)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True
    )
    assert f"DepthlrError: the examples cannot be written to {tmp_path}" in done.stderr
    assert "set TMPDIR" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_a_model_prints_in_a_worker_goes_to_standard_error(capfd) -> None:
    pool = Workers(printing_task, workers=1)
    try:
        list(pool.train(CELLS[:1]))
    finally:
        pool.close()
    found = capfd.readouterr()
    assert found.out == ""
    assert "from Python" in found.err
    assert "from C" in found.err


def test_closing_ends_a_worker_that_is_stopped() -> None:
    pool = Workers(tiny_task, workers=1)
    list(pool.train(CELLS[:1]))
    (pid,) = [worker.process.pid for worker in pool._workers]
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)
    closing = threading.Thread(target=pool.close, daemon=True)
    closing.start()
    closing.join(timeout=30)
    alive = closing.is_alive()
    if alive:
        os.kill(pid, signal.SIGKILL)
    assert not alive


class Broken(torch.autograd.Function):
    """Has no gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise ArithmeticError("no gradient")


LOSSES = {
    "unreduced": (unreduced, r"the loss has shape \(16,\): reduce it"),
    "constant": (lambda output, target: torch.tensor(1.0), "does not depend on any trainable parameter"),
    "float": (lambda output, target: float(output.mean()), "the loss is of type float"),
    "failing": (lambda output, target: output["logits"], r"^the loss failed on the model's output \(IndexError: "),
    "no gradient": (lambda output, target: Broken.apply(output).mean(), r"its backward pass failed \(Arithmetic"),
    "no tensor": (
        lambda output, target: mean_cross_entropy({"logits": "none"}, target),
        "the model returned dict without a floating-point tensor",
    ),
}


@pytest.mark.parametrize(
    "runs", [lambda task: SerialRunner(task).run(CELLS[0]), try_step, lambda t: stepped(t, CELLS[0])]
)
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_that_cannot_be_trained_on_is_a_sentence(name: str, runs) -> None:
    loss_fn, message = LOSSES[name]
    with pytest.raises(DepthlrError, match=message) as caught:
        runs(replace(tiny_task(2), loss_fn=loss_fn))
    assert "\n" not in str(caught.value)


def test_a_model_that_fails_on_a_batch_is_a_sentence() -> None:
    task = replace(tiny_task(2), build=lambda: nn.Linear(3, 2), initialize=lambda model, seed: None)
    with pytest.raises(DepthlrError, match=r"^the model failed on a batch \(RuntimeError: .*\)\.$"):
        try_step(task)


def test_one_step_of_a_run_with_a_warm_up_of_several_steps_is_tried() -> None:
    try_step(tiny_task(2, schedule="warmup-cosine", warmup=3))


def full(output, target):
    raise torch.cuda.OutOfMemoryError("full")


@pytest.mark.parametrize("runs", [lambda task: SerialRunner(task).run(CELLS[0]), try_step])
def test_a_gpu_without_memory_is_a_sentence(runs) -> None:
    with pytest.raises(DepthlrError, match=r"does not fit on the GPU .*: take a smaller batch or model\.$"):
        runs(replace(tiny_task(2), loss_fn=full))


def test_a_captured_step_without_memory_is_left_to_whoever_can_take_fewer_lanes() -> None:
    with pytest.raises(torch.cuda.OutOfMemoryError):
        stepped(replace(tiny_task(2), loss_fn=full), CELLS[0])


def test_a_sentence_crosses_from_worker_processes() -> None:
    pool = Workers(unreduced_task, workers=1)
    try:
        outcomes = [outcome for _, outcome in pool.train(CELLS)]
    finally:
        pool.close()
    assert len(outcomes) == len(CELLS)
    assert all("the loss has shape (16,)" in outcome.failure for outcome in outcomes)


def test_a_loss_of_one_entry_is_a_number() -> None:
    task = tiny_task(2)
    entry = replace(task, loss_fn=lambda output, target: task.loss_fn(output, target).view(1))
    ((_, outcome),) = SerialRunner(entry).train(CELLS[:1])
    assert np.array_equal(outcome.losses, train_plainly(task, CELLS[0]).losses)


def test_a_run_that_diverges_stops_early_and_says_so() -> None:
    task = tiny_task(2, steps=200)
    ((_, outcome),) = SerialRunner(task).train([Cell(2, 0, 1e6)])
    assert outcome.diverged
    assert len(outcome.losses) < 60
    ((_, after),) = SerialRunner(task).train([Cell(2, 0, 0.05)])
    assert not after.diverged


INFINITE = float("inf")


@pytest.mark.parametrize(
    "losses",
    [[INFINITE, INFINITE], [1.0, INFINITE], [1.0, -INFINITE, 1.0], [float("nan"), 1.0], [INFINITE, 1.0], [1.0, 1001.0]],
)
def test_a_loss_that_is_not_finite_or_a_thousandfold_has_diverged(losses: list[float]) -> None:
    assert has_diverged(np.array(losses, dtype=np.float32))


@pytest.mark.parametrize("losses", [[1.0, 999.0], [0.1, 999.0], [5.0, 4999.0], [-1.0, -3e38], [3e38, 2e38]])
def test_a_finite_loss_below_a_thousandfold_has_not_diverged(losses: list[float]) -> None:
    assert not has_diverged(np.array(losses, dtype=np.float32))


def test_a_runner_forgets_one_cell_before_the_next() -> None:
    task = tiny_task(2, PATTERNS["resnet + bn"], optimizer="adam")
    runner = SerialRunner(task)
    alone = [o.losses for _, o in runner.train(CELLS[:1])]
    later = [o.losses for _, o in runner.train([Cell(2, 1, 1e6), CELLS[2], CELLS[0]])]
    assert np.array_equal(alone[0], later[-1])


def test_every_rate_of_a_seed_sees_the_same_batches() -> None:
    task = tiny_task(2)
    assert torch.equal(task.order(3), task.order(3))
    assert not torch.equal(task.order(3), task.order(4))
    first = [train_plainly(task, Cell(2, 0, rate)).losses[0] for rate in (0.01, 0.1)]
    assert first[0] == first[1]


@pytest.mark.parametrize("scale", ["original", "match_rms_adamw"])
def test_captured_muon_is_torchs(scale: str) -> None:
    torch.manual_seed(0)
    theirs, ours = (nn.Parameter(torch.randn(6, 4)) for _ in range(2))
    ours.data.copy_(theirs.data)
    rate = torch.tensor(0.1)
    ours_decayed = [{"params": [ours], "weight_decay": 0.1}]
    pair = (
        torch.optim.Muon([theirs], lr=0.1, weight_decay=0.1, adjust_lr_fn=scale),
        CapturedMuon(ours_decayed, rate, scale),
    )
    for _ in range(5):
        gradient = torch.randn(6, 4)
        for parameter, optimizer in zip((theirs, ours), pair, strict=True):
            parameter.grad = gradient.clone()
            optimizer.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_stay_between_zero_and_one(schedule: str) -> None:
    factors = factors_of(schedule, 50, 0.2, 0.2)
    assert all(0 < f <= 1 for f in factors)
    assert max(factors) == 1
    assert (factors[0] == pytest.approx(0.1)) == (schedule in WARMING)
    ends = {"linear": 0.02, "warmup-linear": 0.025, "wsd": 0.1, "cosine": 0.0, "warmup-cosine": 0.0}
    assert factors[-1] == pytest.approx(ends.get(schedule, 1.0), abs=0.002)


def test_what_repeats_is_compiled() -> None:
    model = tiny_task(3, PATTERNS["cnn"]).build()
    compile_repeated(model)
    assert [layer._compiled_call_impl is not None for layer in model.layers] == [False, True, True]


@pytest.mark.parametrize("bad", [{"optimizer": "lion"}, {"schedule": "cosin"}, {"precision": "fp8"}, {"steps": 0}])
def test_bad_settings_are_refused(bad: dict) -> None:
    with pytest.raises(DepthlrError):
        Training(**{"steps": 10, **bad})


def test_a_model_that_its_owner_compiled_in_part_is_loaded_by_its_own_names() -> None:
    task = replace(
        tiny_task(2),
        build=lambda: nn.Sequential(nn.Flatten(), torch.compile(nn.Linear(64, 10, bias=False), backend="eager")),
        initialize=lambda model, seed: nn.init.eye_(model[1].weight),
    )
    ((_, outcome),) = SerialRunner(task).train(CELLS[:1])
    np.testing.assert_allclose(stepped(task, CELLS[0]), outcome.losses, rtol=2e-4)


def test_a_model_that_cannot_be_copied_is_built_anew() -> None:
    task = replace(tiny_task(2, PATTERNS["mlp"]), build=lambda: nn.utils.weight_norm(nn.Linear(3, 2)))
    model = task.build()
    model(torch.zeros(1, 3))  # leaves a computed weight behind
    with pytest.raises(RuntimeError):
        deepcopy(model)
    assert isinstance(copy_model(task, model), nn.Linear)
    copyable = nn.Linear(3, 2)
    assert torch.equal(copy_model(task, copyable).weight, copyable.weight)


def test_the_average_of_a_model_that_cannot_be_copied_begins_at_its_weights() -> None:
    task = replace(tiny_task(2, PATTERNS["mlp"]), build=lambda: nn.utils.weight_norm(nn.Linear(3, 2)))
    model = task.build()
    model(torch.zeros(1, 3))
    average = WeightAverage(task, model, 0.9)
    for mine, theirs in zip(average.model.parameters(), model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.fixture
def lanes(monkeypatch) -> list[Any]:
    """The runners that `open_executor` opens on a GPU, which train nothing and record how they were opened."""
    opened = []

    class Lanes(Executor):
        capacity = 4

        def __init__(self, task, device, *, most, timeout) -> None:
            assert all(runner.closed for runner in opened), "two runners share the GPU's memory"
            self.task, self.most, self.closed = task, most, False
            opened.append(self)

        def train_together(self, cells):
            for cell in cells:
                yield [(cell, Outcome(np.ones(1, np.float32), 0.0, False))]

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(local, "GraphRunner", Lanes)
    return opened


def test_a_larger_size_tries_no_more_lanes_than_the_last_one_kept(lanes) -> None:
    """A smaller one starts anew."""
    with local.open_executor(lambda size: size, device="cuda") as executor:
        list(executor.train(Cell(size, 0, 0.1) for size in (3, 6, 6, 2)))
    assert [(runner.task, runner.most) for runner in lanes] == [(3, local.MOST_LANES), (6, 4), (2, local.MOST_LANES)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_every_runner_that_was_opened_is_closed_also_after_an_error(lanes, error: type[BaseException]) -> None:
    def train_and_fail() -> None:
        with local.open_executor(lambda size: size, device="cuda") as executor:
            for cell, _ in executor.train(Cell(size, 0, 0.1) for size in (3, 6, 9)):
                if cell.size == 6:
                    raise error

    with pytest.raises(error):
        train_and_fail()
    assert [(runner.task, runner.closed) for runner in lanes] == [(3, True), (6, True)]


class Drawing(nn.Module):
    """Draws from numpy and from Python as it runs, and there is dropout in it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False), nn.Dropout(0.2))

    def forward(self, x):
        return self.layers(x) * (1 + random.random() + float(np.random.rand()))  # noqa: NPY002


@pytest.mark.parametrize("train", [lambda task, cell: train_plainly(task, cell), lambda t, c: SerialRunner(t)._one(c)])
def test_a_seed_fixes_whatever_a_model_draws(train) -> None:
    task = replace(tiny_task(2), build=Drawing, initialize=lambda model, seed: nn.init.ones_(model.layers[1].weight))
    states = random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = train(task, CELLS[0]).losses
    assert random.getstate() == states[0]
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
    for draw in (random.random, np.random.rand, lambda: torch.rand(())):
        draw()
    assert np.array_equal(train(task, CELLS[0]).losses, first)


def test_a_system_that_does_not_say_which_cores_are_ours_trains_on_all(monkeypatch) -> None:
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    with open_executor(tiny_task, device="cpu") as executor:
        ((_, outcome),) = executor.train(CELLS[:1])
    assert np.array_equal(outcome.losses, train_plainly(tiny_task(2), CELLS[0]).losses)


@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name != "muon" or hasattr(torch.optim, "Muon")])
def test_the_largest_rate_and_weight_decay_train_without_an_error(optimizer: str) -> None:
    task = tiny_task(2, optimizer=optimizer, weight_decay=math.nextafter(check.MOST_RATE, 0), steps=3)
    ((_, outcome),) = SerialRunner(task).train([Cell(2, 0, check.MOST_RATE)])
    assert len(outcome.losses)


def test_a_run_without_end_is_a_sentence() -> None:
    with pytest.raises(DepthlrError, match=r"steps is .*: give a whole number of at most 10,000,000"):
        Training(steps=10**20)
