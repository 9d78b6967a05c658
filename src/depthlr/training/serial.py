"""Cells one after the other in this process: the plain loop's numbers to the last bit, with what it wastes left out.

The model is built once and re-initialised in place, and what a run writes into it besides its weights is undone; a run
stops soon after its loss stops being finite.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from depthlr.trace.attributes import attributes_kept
from depthlr.trace.random_states import random_states_kept
from depthlr.training.cell import Cell, Outcome, has_diverged
from depthlr.training.loss import loss_on, told
from depthlr.training.memory import memory_told
from depthlr.training.optimizer import make_optimizers
from depthlr.training.precision import autocast, products_in
from depthlr.training.schedule import multipliers
from depthlr.training.task import Task

LOOKS = 16  # how often a run is looked at for divergence


class SerialRunner:
    """Trains cells of one task on one device."""

    @memory_told()
    def __init__(self, task: Task, device: torch.device | str = "cpu") -> None:
        self._task = task
        self._device = torch.device(device)
        self._examples = task.examples.to(self._device)
        self._model = task.build().to(self._device).train()
        self._factors = multipliers(task.training.schedule, task.training.steps, task.training.warmup)

    def train(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
        for cell in cells:
            with attributes_kept(self._model):
                outcome = self._one(cell)
            yield cell, outcome

    def close(self) -> None:
        del self._model, self._examples

    @memory_told()
    def _one(self, cell: Cell) -> Outcome:
        start = time.perf_counter()
        task, training = self._task, self._task.training
        task.initialise(self._model, cell.seed)
        parameters = list(self._model.parameters())
        optimizers = make_optimizers(training, parameters, cell.rate)
        order = task.order(cell.seed).to(self._device)
        look = max(1, training.steps // LOOKS)
        losses: list[Tensor] = []
        with random_states_kept(cell.seed), products_in(training.precision):
            for step, factor in enumerate(self._factors):
                inputs, target = self._examples.batch(order[step])
                with autocast(training.precision, self._device):
                    loss = loss_on(self._model, inputs, target, task.loss_fn)
                for parameter in parameters:
                    parameter.grad = None
                with told("the loss has no gradient, its backward pass failed"):
                    loss.backward()  # type: ignore[no-untyped-call]
                for optimizer in optimizers:
                    for group in optimizer.param_groups:
                        group["lr"] = cell.rate * factor
                    optimizer.step()
                losses.append(loss.detach())
                if (step + 1) % look == 0 and has_diverged(torch.stack(losses).float().cpu().numpy()):
                    break
        curve = torch.stack(losses).float().cpu().numpy()
        return Outcome(curve, time.perf_counter() - start, has_diverged(curve))
