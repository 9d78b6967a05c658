"""Readings during warm-up: how far the optimizer's next step moves the outputs, relative to their size.

A run of the recipe at the source's tuned rate (or a multiple of it) is stopped at a few steps. There the optimizer's
actual next step, per unit rate and without decoupled weight decay, is the direction u. With f the outputs on batches
that no step has seen,

    E = mean (f(w + e u) - f(w))^2 / e^2        R = variance of f about its mean over classes

and a rule predicts that the best rate changes between two models as (E / R)^(-1/2) does.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from depthlr.study.tasks import load_data, task_at
from depthlr.training.capturable import CapturableRun, draw_start
from depthlr.training.task import Task, logits_and_labels
from experiments.realbench.oracle import placed
from experiments.realbench.recipes import RealRecipe

STEPS = (0, 10, 30, 60, 120)  # the warm-up has 120
SEEDS = (0, 1, 2)
MULTIPLES = (1.0, 1 / 3, 3.0)  # of the source's tuned rate
BATCHES = 4  # of examples that no step has seen
SHARE = 0.1  # of the step, as the distance of the finite difference
COLUMNS = ("size", "seed", "multiple", "step", "rate", "energy", "variance", "loss", "loss_1", "loss_2", "seconds")


def write_readings(
    recipe: RealRecipe,
    data: Path,
    rate: float,
    out: Path,
    *,
    device: str = "cuda",
    steps: Sequence[int] = STEPS,
    seeds: Sequence[int] = SEEDS,
    multiples: Sequence[float] = MULTIPLES,
) -> None:
    """Read every size of a recipe; rows are written as they come.

    Args:
        recipe: what is trained.
        data: the folder of the packed data.
        rate: the tuned rate of the smallest size.
        out: the table's file.
        device: where the model is trained.
        steps: where runs are read.
        seeds: the runs at each size.
        multiples: of the rate, at which the runs are trained.
    """
    study = placed(recipe, data)
    examples, _ = load_data(study)
    make_task = partial(task_at, study, examples=examples)
    out.parent.mkdir(parents=True, exist_ok=True)
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        on_device = examples.to(device)
        for multiple in multiples:
            for size in study.model.sizes:
                task = make_task(size)
                stepper = CapturableRun(task, task.build(), on_device, torch.device(device), compiled=False)
                for seed in seeds:
                    start = time.perf_counter()
                    for step, values in readings(task, stepper, seed, multiple * rate, steps):
                        seconds = time.perf_counter() - start
                        writer.writerow([size, seed, multiple, step, *(f"{v:.6g}" for v in values), f"{seconds:.2f}"])
                    file.flush()
                del stepper


def readings(
    task: Task, stepper: CapturableRun, seed: int, rate: float, steps: Sequence[int]
) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Train one run and read it: the step, then rate, energy, variance, and losses after 0, 1 and 2 such steps."""
    start = draw_start(task, task.build(), seed, stepper.device)
    stepper.load(start, rate)
    fresh = start.order[-BATCHES:]
    for step in range(max(steps) + 1):
        if step not in steps:
            stepper()
            continue
        before = snapshot(stepper)
        stepper()
        after = snapshot(stepper)
        rate_now = float(stepper.rate)
        direction = direction_of(stepper, before, after, rate_now)
        outputs, loss = outputs_at(task, stepper, before, direction, 0.0, fresh)
        moved, _ = outputs_at(task, stepper, before, direction, SHARE * rate_now, fresh)
        losses = [outputs_at(task, stepper, before, direction, count * rate_now, fresh)[1] for count in (1, 2)]
        energy = float((moved - outputs).square().mean()) / (SHARE * rate_now) ** 2
        variance = float((outputs - outputs.mean(1, keepdim=True)).square().mean())
        restore(stepper, after)
        yield step, (rate_now, energy, variance, loss, *losses)


def snapshot(stepper: CapturableRun) -> dict[str, Tensor]:
    named = (*stepper.model.named_parameters(), *stepper.model.named_buffers())
    return {name: tensor.detach().clone() for name, tensor in named}


@torch.no_grad()
def restore(stepper: CapturableRun, state: dict[str, Tensor]) -> None:
    for name, tensor in (*stepper.model.named_parameters(), *stepper.model.named_buffers()):
        tensor.copy_(state[name])


def direction_of(
    stepper: CapturableRun, before: dict[str, Tensor], after: dict[str, Tensor], rate: float
) -> dict[str, Tensor]:
    """The step per unit rate, without decoupled weight decay."""
    decay: dict[int, float] = {}
    for optimizer in stepper.optimizers:
        if not isinstance(optimizer, torch.optim.SGD):  # SGD's decay is part of its gradient
            decay |= {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    return {
        name: (after[name] - before[name]) / rate + decay.get(id(p), 0.0) * before[name]
        for name, p in stepper.model.named_parameters()
    }


@torch.no_grad()
def outputs_at(
    task: Task,
    stepper: CapturableRun,
    state: dict[str, Tensor],
    direction: dict[str, Tensor],
    distance: float,
    batches: Tensor,
) -> tuple[Tensor, float]:
    """Outputs (examples, classes, ...) and mean loss at a distance along the direction, in training mode and fp32."""
    outputs, losses = [], []
    for indices in batches:
        restore(stepper, {name: state[name] + distance * direction.get(name, 0.0) for name in state})
        inputs, target = stepper.examples.batch(indices)
        output = stepper.model(inputs)
        losses.append(float(task.loss_fn(output, target)))
        outputs.append(logits_and_labels(output, target)[0].float())
    return torch.cat(outputs), sum(losses) / len(losses)
