"""What every cell of one size has in common: the model, its data, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthlr.data.examples import Examples
from depthlr.data.order import batch_order
from depthlr.errors import DepthlrError
from depthlr.training.schedule import SCHEDULES

OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "muon")
PRECISIONS = ("fp32", "tf32", "bf16")


@dataclass(frozen=True)
class Training:
    """How a cell is trained."""

    steps: int
    batch: int = 128
    optimizer: str = "sgd"
    momentum: float = 0.9  # of `momentum`; the others have none or their own
    weight_decay: float = 0.0
    schedule: str = "constant"
    warmup: float = 0.1  # share of the steps
    precision: str = "fp32"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("optimizer", self.optimizer, OPTIMIZERS),
            ("schedule", self.schedule, tuple(SCHEDULES)),
            ("precision", self.precision, PRECISIONS),
        ):
            if value not in known:
                raise DepthlrError(f"{name} = {value!r} is unknown: choose one of {', '.join(known)}.")
        if self.optimizer == "muon" and not hasattr(torch.optim, "Muon"):
            raise DepthlrError("Muon needs PyTorch 2.9 or newer: install it, or choose another optimizer.")
        if self.steps < 1 or self.batch < 1:
            raise DepthlrError(f"steps = {self.steps} and batch = {self.batch}: both must be at least 1.")


def mean_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Mean over all predictions, (batch, classes) or (batch, tokens, classes)."""
    if not isinstance(logits, Tensor):
        raise DepthlrError(
            f"cross_entropy takes a tensor of logits, and the model's output is of type {type(logits).__name__}: name "
            "a loss of your own that takes it, as module:function."
        )
    return F.cross_entropy(logits.float().flatten(0, -2), target.flatten())


@dataclass(frozen=True)
class Task:
    """A model of one size, on its data. `initialise(model, seed)` writes a seed's weights and buffers into it."""

    build: Callable[[], nn.Module]
    initialise: Callable[[nn.Module, int], None]
    examples: Examples
    training: Training
    loss_fn: Callable[[Any, Tensor], Tensor] = mean_cross_entropy
    limit: int | None = None  # use the first so many examples

    def order(self, seed: int) -> Tensor:
        """Which examples each step sees, int64 (steps, batch): the same for every rate of a seed."""
        count = len(self.examples) if self.limit is None else min(self.limit, len(self.examples))
        return batch_order(count, self.training.batch, self.training.steps, seed)
