"""The plain loop: what everyone writes, and what the faster runners must agree with."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from depthlr.optimizers import make_optimizers
from depthlr.random_states import preserve_random_states
from depthlr.training.cell import Cell, Outcome, has_diverged
from depthlr.training.device import autocast, matmul_precision
from depthlr.training.schedule import factors_of
from depthlr.training.task import Task


def train_plainly(task: Task, cell: Cell, device: torch.device | str = "cpu") -> Outcome:
    """Build, initialise, train every step, whatever the loss does."""
    start = time.perf_counter()
    device = torch.device(device)
    training = task.training
    model = task.build()
    task.initialise(model, cell.seed)
    model = model.to(device).train()
    examples = task.examples.to(device)
    order = task.order(cell.seed).to(device)
    optimizers = make_optimizers(training, model, cell.rate)
    factors = factors_of(training.schedule, training.run_steps, training.warmup or 0.0, training.cooldown or 0.0)
    losses: list[Tensor] = []
    with preserve_random_states(cell.seed), matmul_precision(training.precision):
        for step, factor in enumerate(factors):
            inputs, target = examples.batch(order[step])
            with autocast(training.precision, device):
                loss = task.loss_fn(model(inputs), target)
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = cell.rate * factor
                optimizer.step()
            losses.append(loss.detach())
    curve = torch.stack(losses).float().cpu().numpy()
    return Outcome(curve, time.perf_counter() - start, has_diverged(curve))
