"""What every cell of one size has in common: the task, its training step, and the evaluation on held-out data.

Step and evaluation are tensor work on the device without a look at values, so that a CUDA graph can capture them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from depthlr.data.batches import batch_order
from depthlr.data.examples import Examples, is_on_host, one_pass
from depthlr.errors import DepthlrError, one_sentence_errors
from depthlr.trace.interface import LossFn, readout_of
from depthlr.trace.preserve import force_eval_flags
from depthlr.training.augment import augment_batch, draw_chances
from depthlr.training.cell import Evaluation
from depthlr.training.device import autocast
from depthlr.training.feed import Feed
from depthlr.training.training import Training

IGNORED = -100  # the label that cross-entropy leaves out
_sentences = partial(one_sentence_errors, but=(torch.cuda.OutOfMemoryError,))  # then fewer lanes are tried


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


class TrainingStep:
    """A model and its optimizers; calling it takes one optimizer step and returns the loss before it."""

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        examples: Examples | Feed,
        optimizers: Sequence[Optimizer],
        device: torch.device,
    ) -> None:
        self.model, self.optimizers = model, optimizers
        self._examples, self._device = examples, device
        self._training, self._loss_fn = task.training, task.training_loss
        self._parameters = [p for p in model.parameters() if p.requires_grad]  # others have no gradient to ask for

    def __call__(self, indices: Tensor, chance: Tensor) -> Tensor:
        """Train on the examples of these indices, augmented by these chances; both begin with the batch."""
        parts = self._training.accumulate or 1
        losses: list[Tensor] = []
        for part, drawn in zip(indices.chunk(parts), chance.chunk(parts), strict=True):
            loss = self._loss(part, drawn)
            with _sentences("the loss has no gradient, its backward pass failed"):
                gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
            losses.append(loss.detach().float())
            for parameter, gradient in zip(self._parameters, gradients, strict=True):
                before = parameter.grad if len(losses) > 1 else None
                parameter.grad = gradient if before is None or gradient is None else before + gradient
        if parts > 1:
            torch._foreach_div_([p.grad for p in self._parameters if p.grad is not None], float(parts))
        if self._training.clip is not None:
            nn.utils.clip_grad_norm_(self._parameters, self._training.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        return losses[0] if parts == 1 else torch.stack(losses).mean()

    def _loss(self, indices: Tensor, chance: Tensor) -> Tensor:
        inputs, target = self._examples.batch(indices)
        inputs, target, loss_fn = augment_batch(self._training.augment, inputs, target, chance, self._loss_fn)
        with autocast(self._training.precision, self._device):
            return loss_on(self.model, inputs, target, loss_fn)


class HeldOut:
    """A model's loss and accuracy on held-out data, added up over one pass in batches.

    The batches are equal, because a captured CUDA graph has one shape. The remainder, which is smaller than the number
    of batches, is left out. It is the same in every pass of every cell.
    """

    def __init__(self, task: Task, examples: Examples, device: torch.device) -> None:
        self._examples, self._device = examples, device
        self._loss_fn, self._precision = task.loss_fn, task.training.precision
        order = one_pass(examples)
        self.batches = math.ceil(len(order) / task.training.batch)
        batch = len(order) // self.batches  # equal batches for CUDA graphs; the remainder is dropped
        self._order = order[: self.batches * batch].view(self.batches, batch)
        if not is_on_host(examples):
            self._order = self._order.to(device)
        self._feed = Feed(examples, self.batches, batch, device, task.loaders)
        self.sums = torch.zeros(3, dtype=torch.float64, device=device)  # loss, right predictions, predictions

    def restart(self) -> None:
        """Begin a pass."""
        self.sums.zero_()
        self._feed.restart(self._order)

    def advance(self) -> None:
        """Before each batch: read it, if the data stay on the host. No part of a captured evaluation."""
        self._feed.advance()

    @torch.no_grad()
    def add_batch(self, model: nn.Module) -> None:
        """Evaluate the next batch; the model is in eval mode while it is.

        Args:
            model: The model.
        """
        inputs, target = self._feed.batch(self._feed.take())
        with force_eval_flags(model), autocast(self._precision, self._device):
            output = model(inputs)
            loss = self._loss_fn(output, target)
        self.sums[0] += loss.double().reshape(())
        if self._loss_fn is mean_cross_entropy:
            logits, labels = logits_and_labels(output, target)
            self.sums[1] += (logits.argmax(1) == labels).sum()
            self.sums[2] += (labels != IGNORED).sum()

    def evaluation(self, steps: int, sums: Tensor | None = None) -> Evaluation:
        """The evaluation after so many training steps, from the last pass or from stored sums.

        Args:
            steps: The number of training steps.
            sums: The kept sums. None takes those of the pass that has ended.
        """
        loss, right, count = (self.sums if sums is None else sums).tolist()
        return Evaluation(steps, loss / self.batches, right / count if count else None)


def copy_model(task: Task, model: nn.Module) -> nn.Module:
    """A second model like this one. A copy is faster than building it again, but some models cannot be copied.

    Args:
        task: Builds a model that cannot be copied.
        model: The model.
    """
    try:
        return deepcopy(model)
    except RuntimeError:  # tensors that are computed, as old-style weight norm leaves behind, cannot be
        return task.build()


class WeightAverage:
    """An exponential moving average of a model's weights, held by a copy of it that is evaluated in its place."""

    def __init__(self, task: Task, model: nn.Module, decay: float) -> None:
        self.model = copy_model(task, model).to(next(model.parameters()).device)
        self._decay = decay
        self.restart(model)

    @torch.no_grad()
    def restart(self, model: nn.Module) -> None:
        """Begin from the weights of a run's first step.

        Args:
            model: The model of the run.
        """
        mine = chain(self.model.parameters(), self.model.buffers())
        for tensor, start in zip(mine, chain(model.parameters(), model.buffers()), strict=True):
            tensor.copy_(start)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """After each step: weights move towards the model's by 1 - decay; buffers are the model's.

        Args:
            model: The model of the run.
        """
        for weight, new_weight in zip(self.model.parameters(), model.parameters(), strict=True):
            weight.lerp_(new_weight, 1 - self._decay)
        for buffer, new_buffer in zip(self.model.buffers(), model.buffers(), strict=True):
            buffer.copy_(new_buffer)


def loss_on(model: nn.Module, inputs: Tensor, target: Tensor, loss_fn: LossFn) -> Tensor:
    """A scalar on which a step can be taken, or one sentence on why there is none: models are other people's code.

    Args:
        model: The model.
        inputs: The batch.
        target: Its targets.
        loss_fn: Takes the output and the targets.
    """
    with _sentences("the model failed on a batch"):
        output = model(inputs)
    with _sentences("the loss failed on the model's output"):
        loss: Any = loss_fn(output, target)
    if not isinstance(loss, Tensor):
        raise DepthlrError(f"the loss is of type {type(loss).__name__}: return one number as a tensor.")
    if loss.numel() != 1:
        raise DepthlrError(f"the loss has shape {tuple(loss.shape)}: reduce it to one number, such as its mean.")
    if not loss.requires_grad:
        raise DepthlrError("the loss does not depend on any trainable parameter: compute it from the model's output.")
    return loss.reshape(())
