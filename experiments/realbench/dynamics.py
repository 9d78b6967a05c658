"""Dynamics: what a step does to the weights and the outputs, and how curved the loss is, along a run.

All sizes run at one rate, the one that was tuned on the smallest size. Hidden matrices are all weights with two
dimensions or more, without embeddings and head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from depthlr.optimizers import outer_parameters
from depthlr.study.tasks import load_data, task_at
from depthlr.training.capturable import CapturableRun, draw_start
from depthlr.training.task import Task
from experiments.realbench.measuring import Measurements, Values
from experiments.realbench.oracle import placed
from experiments.realbench.readings import direction_of, outputs_at, restore, snapshot
from experiments.realbench.recipes import RealRecipe

STEPS = (0, 30, 60, 119, 300, 600, 900, 1199)  # the warm-up has 120
SEEDS = (0, 1)
POWER_STEPS = 20  # of power iteration; two gradients each
EPSILON = 1e-3  # distance of the finite difference, relative to the norm of the weights
SHARE = 0.1  # of the step, as the distance at which outputs are compared
DYNAMICS = Measurements(
    ("size", "seed", "step"),
    (
        "rate",
        "loss",
        "weight_norm",  # of the hidden matrices
        "relative_update",  # |step| / |weights| of the hidden matrices, weight decay included
        "angle",  # between the hidden matrices before and after the step, in radians
        "gradient_norm",  # of the whole gradient, before clipping
        "sharpness",  # the Hessian's eigenvalue of largest size, on one batch
        "step_curvature",  # u'Hu / u'u along the optimizer's step u
        "output_change",  # sqrt(E / R) at the rate in use, as in the readings
    ),
)


def write_dynamics(
    recipe: RealRecipe,
    data: Path,
    rate: float,
    table: Path,
    *,
    seconds: float | None,
    device: str,
    steps: Sequence[int] = STEPS,
    seeds: Sequence[int] = SEEDS,
) -> bool:
    """Measure runs of every size at one rate; True when finished.

    Args:
        recipe: what is trained.
        data: the folder of the packed data.
        rate: the rate of every run.
        table: the table's file.
        seconds: measure nothing more after so long.
        device: where models are trained.
        steps: where runs are measured; those beyond a run's end are left out.
        seeds: the runs at each size.
    """
    study = placed(recipe, data)
    examples, _ = load_data(study)
    on_device = examples.to(device)
    runs: dict[tuple[int, int], Iterator[tuple[int, Values]]] = {}
    within = [step for step in steps if step < study.training.run_steps]

    def measure(size: int, seed: int, step: int) -> Values:
        if (size, seed) not in runs:
            runs.clear()  # one model at a time
            task = task_at(study, size, examples)
            stepper = CapturableRun(task, task.build(), on_device, torch.device(device), compiled=False)
            runs[size, seed] = dynamics(task, stepper, seed, rate, within)
        return next(values for place, values in runs[size, seed] if place == step)

    keys = [(size, seed, step) for size in study.model.sizes for seed in seeds for step in within]
    return DYNAMICS.fill(table, study.digest, keys, measure, seconds=seconds)


def dynamics(
    task: Task, stepper: CapturableRun, seed: int, rate: float, steps: Sequence[int]
) -> Iterator[tuple[int, Values]]:
    """Train one run and measure its step at each of these places."""
    start = draw_start(task, task.build(), seed, stepper.device)
    stepper.load(start, rate)
    fresh = start.order[-1:]
    hidden = hidden_matrices(stepper.model)
    for step in range(max(steps) + 1):
        if step not in steps:
            stepper()
            continue
        before = snapshot(stepper)
        stepper()
        after = snapshot(stepper)
        rate_now = float(stepper.rate)
        direction = direction_of(stepper, before, after, rate_now)
        loss_at = _loss_of_batch(task, stepper, fresh[0])
        outputs, loss = outputs_at(task, stepper, before, direction, 0.0, fresh)
        moved, _ = outputs_at(task, stepper, before, direction, SHARE * rate_now, fresh)
        restore(stepper, before)
        gradient = loss_at()
        sharpness = largest_eigenvalue(stepper.model, loss_at)
        curvature = curvature_along(stepper.model, loss_at, list(direction.values()))
        restore(stepper, after)
        old, new = (torch.cat([state[name].flatten() for name in hidden]).double() for state in (before, after))
        change = float((moved - outputs).square().mean()) / SHARE**2
        variance = float((outputs - outputs.mean(1, keepdim=True)).square().mean())
        yield (
            step,
            {
                "rate": rate_now,
                "loss": loss,
                "weight_norm": float(old.norm()),
                "relative_update": float((new - old).norm() / old.norm()),
                "angle": float(torch.arccos((old @ new / old.norm() / new.norm()).clamp(max=1.0))),
                "gradient_norm": float(_norm(gradient)),
                "sharpness": sharpness,
                "step_curvature": curvature,
                "output_change": (change / variance) ** 0.5,
            },
        )


def hidden_matrices(model: nn.Module) -> list[str]:
    """The names of weights with two dimensions or more, without embeddings and the head."""
    outer = outer_parameters(model)
    return [name for name, p in model.named_parameters() if p.dim() >= 2 and id(p) not in outer]


Gradient = Callable[[], list[Tensor]]


def _loss_of_batch(task: Task, stepper: CapturableRun, indices: Tensor) -> Gradient:
    """The gradient of the loss on one batch at the weights in place, in training mode and fp32; buffers are kept."""
    inputs, target = stepper.examples.batch(indices)
    buffers = dict(stepper.model.named_buffers())

    def gradient() -> list[Tensor]:
        kept = {name: tensor.clone() for name, tensor in buffers.items()}
        loss = task.training_loss(stepper.model(inputs), target)
        found = torch.autograd.grad(loss, list(stepper.model.parameters()))
        for name, tensor in buffers.items():
            tensor.copy_(kept[name])
        return list(found)

    return gradient


def hessian_times(model: nn.Module, gradient: Gradient, vector: Sequence[Tensor]) -> list[Tensor]:
    """H v by a central difference of gradients: the fused attention has no second derivative."""
    parameters = list(model.parameters())
    distance = EPSILON * _norm(parameters) / _norm(vector)
    ends = []
    for sign in (1.0, -1.0):
        with torch.no_grad():
            kept = [p.clone() for p in parameters]
            for p, v in zip(parameters, vector, strict=True):
                p.add_(sign * distance * v)
        ends.append(gradient())
        with torch.no_grad():
            for p, old in zip(parameters, kept, strict=True):
                p.copy_(old)
    return [(high - low) / (2 * distance) for high, low in zip(*ends, strict=True)]


def largest_eigenvalue(model: nn.Module, gradient: Gradient, steps: int = POWER_STEPS) -> float:
    """The Hessian's eigenvalue of largest size, by power iteration from the gradient."""
    vector = gradient()
    value = 0.0
    for _ in range(steps):
        norm = _norm(vector)
        vector = [part / norm for part in vector]
        product = hessian_times(model, gradient, vector)
        value = float(_product(vector, product))
        vector = product
    return value


def curvature_along(model: nn.Module, gradient: Gradient, direction: Sequence[Tensor]) -> float:
    """u'Hu / u'u."""
    product = hessian_times(model, gradient, direction)
    return float(_product(direction, product) / _product(direction, direction))


def _norm(vector: Sequence[Tensor]) -> Tensor:
    found: Tensor = torch.stack([part.detach().norm() for part in vector]).norm()
    return found


def _product(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    found: Tensor = torch.stack([(a * b).sum() for a, b in zip(one, other, strict=True)]).sum()
    return found
