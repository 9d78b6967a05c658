"""The models of one size as the sweep's cells have them: an initialization and batches for each seed."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn
from torch.optim import Optimizer

from depthlr.data.batches import batch_order
from depthlr.data.examples import Examples
from depthlr.study.tasks import task_at
from depthlr.training.device import default_device
from experiments.transferbench.probe import Batch
from experiments.transferbench.task import Task


class Models:
    """One model in memory, which is initialized anew for every measurement; the examples lie on the device."""

    def __init__(self, task: Task, size: int, examples: Examples) -> None:
        self.size = size
        self._trained = task_at(task.study, size, examples)
        self._model = self._trained.build().to(default_device())
        self.loss_fn = self._trained.loss_fn

    def fresh(self, seed: int) -> nn.Module:
        """The model in a seed's initialization, with no trace of what was done to it before."""
        self._trained.initialize(self._model, seed)
        for module in self._model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.reset_running_stats()
        return self._model

    def batches(self, seed: int, steps: int) -> Iterator[Batch]:
        """The first batches of a cell of that seed."""
        examples, limit = self._trained.examples, self._trained.limit
        count = len(examples) if limit is None else min(limit, len(examples))
        for indices in batch_order(count, self._trained.training.batch, steps, seed):
            yield examples.batch(indices.to(default_device()))

    def optimizers(self, model: nn.Module) -> list[Optimizer]:
        """Those of a cell, at a rate that is set or divided out later."""
        return self._trained.training.make_optimizers(model, 1e-3)
