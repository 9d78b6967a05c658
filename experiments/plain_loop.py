"""The plain loop: what everyone writes, and what the faster runners must agree with."""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

from depthlr.random_states import preserve_random_states
from depthlr.training.cell import Cell, Evaluation, Outcome, has_diverged
from depthlr.training.device import autocast, matmul_precision
from depthlr.training.task import Task


def train_plainly(task: Task, cell: Cell, device: torch.device | str = "cpu") -> Outcome:
    """Build, initialize, train every step, whatever the loss does, and evaluate once if there are held-out examples."""
    start = time.perf_counter()
    device = torch.device(device)
    training = task.training
    model = task.build()
    task.initialize(model, cell.seed)
    model = model.to(device).train()
    examples = task.examples.to(device)
    order = task.order(cell.seed).to(device)
    optimizers = training.make_optimizers(model, cell.rate)
    factors = training.rate_factors()
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
        evaluations = () if task.held_out is None else (evaluate_plainly(task, model, device),)
    curve = torch.stack(losses).float().cpu().numpy()
    return Outcome(curve, time.perf_counter() - start, has_diverged(curve), evaluations)


@torch.no_grad()
def evaluate_plainly(task: Task, model: nn.Module, device: torch.device) -> Evaluation:
    """The mean loss over the held-out examples, batch by batch."""
    assert task.held_out is not None
    held_out, batch = task.held_out.to(device), task.training.batch
    total = torch.zeros((), dtype=torch.float64, device=device)
    model.eval()
    everything = torch.arange(len(held_out), device=device)
    for start in range(0, len(held_out), batch):
        indices = everything[start : start + batch]
        inputs, target = held_out.batch(indices)
        with autocast(task.training.precision, device):
            total += task.loss_fn(model(inputs), target).double() * len(indices)
    model.train()
    return Evaluation(task.training.run_steps, float(total) / len(held_out), None)
