"""What every cell of one size has in common: the model, its data, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from depthlr.data.batches import batch_order
from depthlr.data.examples import Examples
from depthlr.trace.interface import LossFn, readout_of
from depthlr.training.augment import draw_chances
from depthlr.training.training import Training


def mean_cross_entropy(output: Any, target: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """The mean cross-entropy over all predictions.

    Args:
        output: The model's output; its readout is (batch, classes), (batch, tokens, classes) or (batch, classes, ...).
        target: The labels.
        label_smoothing: As in torch.
    """
    logits, labels = logits_and_labels(output, target)
    return F.cross_entropy(logits, labels, label_smoothing=label_smoothing)


def logits_and_labels(output: Any, target: Tensor) -> tuple[Tensor, Tensor]:
    """Logits with classes in dimension 1, and the labels they predict.

    Args:
        output: The model's output.
        target: The labels.
    """
    logits = readout_of(output).float()
    tokens = target.shape == logits.shape[:-1]
    pixels = logits.dim() > 2 and target.shape == (logits.shape[0], *logits.shape[2:])
    if pixels and not (tokens and logits.dim() == 3):
        return logits, target
    return logits.flatten(0, -2), target.flatten()


@dataclass(frozen=True)
class Task:
    """A model of one size, on its data.

    Args:
        build: Builds the model.
        initialize: Writes a seed's weights and buffers into a model.
        examples: The training data.
        training: How to train, with the length in steps.
        loss_fn: Takes the model's output and the targets. Held-out data are judged by it without label smoothing.
        limit: Use only the first examples, this many.
        held_out: What a run is evaluated on, if anything.
        loaders: Processes that read batches ahead, for data that stay on the host while a GPU trains.
    """

    build: Callable[[], nn.Module]
    initialize: Callable[[nn.Module, int], None]
    examples: Examples
    training: Training
    loss_fn: LossFn = mean_cross_entropy
    limit: int | None = None
    held_out: Examples | None = None
    loaders: int = 0

    def order(self, seed: int) -> Tensor:
        """The indices of each step's examples, int64 (steps, batch). They are the same for every rate of a seed.

        Args:
            seed: The seed.
        """
        count = len(self.examples) if self.limit is None else min(self.limit, len(self.examples))
        return batch_order(count, self.training.batch, self.training.run_steps, seed)

    def chances(self, seed: int) -> Tensor:
        """What decides the augmentation of each of them, (steps, batch, ...).

        Args:
            seed: The seed.
        """
        return draw_chances(self.training.augment, self.training.run_steps, self.training.batch, seed)

    @property
    def training_loss(self) -> LossFn:
        """The loss on which steps are taken: smoothed, if asked for."""
        if self.training.label_smoothing and self.loss_fn is mean_cross_entropy:
            return partial(mean_cross_entropy, label_smoothing=self.training.label_smoothing)
        return self.loss_fn


MakeTask = Callable[[int], Task]  # of a size
