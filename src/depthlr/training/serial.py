"""Cells one after the other in this process: the plain loop's numbers to the last bit, with what it wastes left out.

The model is built once and re-initialized in place, and what a run writes into it besides its weights is undone; a run
stops soon after its loss stops being finite.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from depthlr.random_states import preserve_random_states
from depthlr.trace.preserve import preserve_attributes
from depthlr.training.cell import DIVERGENCE_CHECKS, Cell, Evaluation, Outcome, has_diverged
from depthlr.training.device import default_device, explain_full_memory, matmul_precision
from depthlr.training.executor import InProcess
from depthlr.training.feed import Feed
from depthlr.training.task import HeldOut, MakeTask, Task, TrainingStep, WeightAverage

SEEDS_KEPT = 8  # whose order of examples is kept


class SerialRunner(InProcess):
    """Trains cells of one task on one device, one after the other."""

    @explain_full_memory()
    def __init__(self, task: Task, device: torch.device | str = "cpu") -> None:
        self._task, self._device = task, torch.device(device)
        examples, training, held_out = task.examples.to(self._device), task.training, task.held_out
        self._order = lru_cache(maxsize=SEEDS_KEPT)(task.order)  # a shuffle of many millions takes seconds
        self._feed = Feed(examples, training.run_steps, training.batch, self._device, task.loaders)
        self._model = task.build().to(self._device).train()
        self._factors = training.rate_factors()
        self._held_out = None if held_out is None else HeldOut(task, held_out.to(self._device), self._device)
        self._evaluation_steps = training.evaluation_steps() if held_out is not None else ()

    def run(self, cell: Cell) -> Outcome:
        """Train one cell; raises what its model, loss or data raise.

        Args:
            cell: The cell.
        """
        with preserve_attributes(self._model):
            return self._one(cell)

    def close(self) -> None:
        del self._model, self._feed

    @explain_full_memory()
    def _one(self, cell: Cell) -> Outcome:
        start = time.perf_counter()
        task, training = self._task, self._task.training
        task.initialize(self._model, cell.seed)
        optimizers = training.make_optimizers(self._model, cell.rate)
        take_step = TrainingStep(task, self._model, self._feed, optimizers, self._device)
        average = None if training.ema is None else WeightAverage(task, self._model, training.ema)
        self._feed.restart(self._order(cell.seed))
        chances = task.chances(cell.seed).to(self._device)
        look = max(1, training.run_steps // DIVERGENCE_CHECKS)
        losses: list[Tensor] = []
        evaluations: list[Evaluation] = []
        with preserve_random_states(cell.seed), matmul_precision(training.precision):
            for step, factor in enumerate(self._factors):
                for optimizer in optimizers:
                    for group in optimizer.param_groups:
                        group["lr"] = cell.rate * factor
                self._feed.advance()
                losses.append(take_step(self._feed.take(), chances[step]))
                if average is not None:
                    average.update(self._model)
                if (step + 1) % look == 0 and has_diverged(_curve(losses)):
                    break
                if step + 1 in self._evaluation_steps:
                    evaluations.append(self._evaluate(step + 1, average))
        curve = _curve(losses)
        diverged = has_diverged(curve)
        return Outcome(curve, time.perf_counter() - start, diverged, () if diverged else tuple(evaluations))

    def _evaluate(self, steps: int, average: WeightAverage | None) -> Evaluation:
        assert self._held_out is not None
        model = self._model if average is None else average.model
        self._held_out.restart()
        with preserve_random_states():
            for _ in range(self._held_out.batches):
                self._held_out.advance()
                self._held_out.add_batch(model)
        return self._held_out.evaluation(steps)


class SerialExecutor(InProcess):
    """Trains cells of any size in this process, one after the other. The model of the last size stays warm.

    Args:
        make_task: Returns the task of a size.
        device: What cells train on.
    """

    def __init__(self, make_task: MakeTask, device: torch.device | str = "cpu") -> None:
        self._make_task, self._device = make_task, device
        self._runners: dict[int, SerialRunner] = {}  # of one size at most

    def run(self, cell: Cell) -> Outcome:
        """Train one cell. After an error the model is built anew: what a failed run left in it is not trusted.

        Args:
            cell: The cell.
        """
        try:
            if cell.size not in self._runners:
                self._runners.clear()
                self._runners[cell.size] = SerialRunner(self._make_task(cell.size), self._device)
            return self._runners[cell.size].run(cell)
        except BaseException:
            self._runners.clear()
            raise

    def close(self) -> None:
        self._runners.clear()


def try_step(task: Task) -> None:
    """Raise one sentence if the first training step, or the evaluation after it, fails on the device that will train.

    Args:
        task: The task of one size.
    """
    # In one call: a warm-up of ten steps and a run of one step would refuse each other.
    step = replace(task.training, steps=1, epochs=None, schedule="constant", warmup=None, cooldown=None)
    SerialRunner(replace(task, training=step), default_device()).run(Cell(size=0, seed=0, rate=0.0))  # learns nothing


def _curve(losses: Sequence[Tensor]) -> NDArray[np.float32]:
    curve: NDArray[np.float32] = torch.stack(list(losses)).float().cpu().numpy()
    return curve
