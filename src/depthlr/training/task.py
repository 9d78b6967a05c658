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
from depthlr.trace.record import readout_of
from depthlr.training.schedule import SCHEDULES

OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "muon")
MOST_STEPS = 10_000_000  # every step's loss is kept, and the order of examples is drawn before the first
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
        if self.steps > MOST_STEPS:
            raise DepthlrError(f"a run of {self.steps} steps is too long: take at most {MOST_STEPS:,}.")


def mean_cross_entropy(output: Any, target: Tensor) -> Tensor:
    """Mean over all predictions of the readout: (batch, classes), (batch, tokens, classes) or (batch, classes, ...).

    Which of the last two is told by the target's shape; where both suit it, three dimensions are tokens.
    """
    logits = readout_of(output).float()
    tokens = target.shape == logits.shape[:-1]
    pixels = logits.dim() > 2 and target.shape == (logits.shape[0], *logits.shape[2:])
    if pixels and not (tokens and logits.dim() == 3):
        return F.cross_entropy(logits, target)
    return F.cross_entropy(logits.flatten(0, -2), target.flatten())


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
