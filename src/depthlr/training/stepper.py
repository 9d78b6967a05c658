"""One training step as tensor work on fixed buffers: no host in the loop, so a CUDA graph can replay it.

The step number, the order of the examples, the rate, its schedule and the losses all live on the device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from copy import deepcopy

import torch
from torch import Tensor, nn

from depthlr.data.examples import Examples
from depthlr.training.captured_optimizer import captured_optimizers, forget
from depthlr.training.loss import loss_on, told
from depthlr.training.precision import autocast
from depthlr.training.schedule import multipliers
from depthlr.training.task import Task


class Stepper:
    """A model, its optimizer and its place in a run; calling it takes one step."""

    def __init__(
        self, task: Task, model: nn.Module, examples: Examples, device: torch.device, *, compiled: bool
    ) -> None:
        training = task.training
        self._task, self._examples, self._device = task, examples, device
        self.model = another(task, model).to(self._device).train()
        self._images = any(isinstance(m, nn.Conv2d) for m in self.model.modules())
        if self._images:
            self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if compiled:
            compile_repeated(self.model)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]  # others have no gradient to ask for
        self._order = torch.zeros(training.steps, training.batch, dtype=torch.int64, device=self._device)
        self._factors = torch.tensor(
            multipliers(training.schedule, training.steps, training.warmup), dtype=torch.float64
        ).to(self._device, torch.float32)
        self._step = torch.zeros(1, dtype=torch.int64, device=self._device)
        self._base = torch.zeros(1, device=self._device)
        self._rate = torch.zeros((), device=self._device)
        self.losses = torch.zeros(training.steps, device=self._device)
        self._optimizers = captured_optimizers(training, self.parameters, self._rate)

    def load(self, state: Mapping[str, Tensor], order: Tensor, rate: float) -> None:
        """Begin a run: this initialisation, these batches, this rate. Asynchronous on a GPU."""
        with torch.no_grad():
            for name, tensor in (*self.model.named_parameters(), *self.model.named_buffers()):
                tensor.copy_(state[name])
        forget(self._optimizers)
        self._order.copy_(order)
        self._base.fill_(rate)
        self._step.zero_()
        self.losses.zero_()

    def __call__(self) -> None:
        """One step."""
        training = self._task.training
        self._rate.copy_((self._base * self._factors.index_select(0, self._step)).squeeze(0))
        inputs, target = self._examples.batch(self._order.index_select(0, self._step).view(-1))
        if self._images and inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        with autocast(training.precision, self._device):
            loss = loss_on(self.model, inputs, target, self._task.loss_fn)
        with told("the loss has no gradient, its backward pass failed"):
            gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        for optimizer in self._optimizers:
            optimizer.step()
        self.losses.index_copy_(0, self._step, loss.detach().float().view(1))
        self._step.add_(1)

    def draws_at_random(self) -> bool:
        """Take one step: does it draw random numbers (dropout, stochastic depth)?"""
        before = self._random_state()
        self()
        return not torch.equal(before, self._random_state())

    def _random_state(self) -> Tensor:
        """Of the generator from which models on the device draw; it lies on the host."""
        return torch.cuda.get_rng_state(self._device) if self._device.type == "cuda" else torch.get_rng_state()


def another(task: Task, model: nn.Module) -> nn.Module:
    """A model like this one: a copy, which is faster than building and initialising anew, where it can be copied."""
    try:
        return deepcopy(model)
    except RuntimeError:  # tensors that are computed, as old-style weight norm leaves behind, cannot be
        return task.build()


def initial_state(task: Task, model: nn.Module, seed: int, device: torch.device) -> dict[str, Tensor]:
    """A seed's initialisation, drawn into a model on the CPU, so that every device starts from the same numbers."""
    task.initialise(model, seed)
    named = (*model.named_parameters(), *model.named_buffers())
    return {name: tensor.detach().to(device, copy=True) for name, tensor in named}


def compile_repeated(model: nn.Module) -> None:
    """Compile what repeats (the layers or blocks of a ModuleList): one compilation serves all of them, at any depth."""
    for module in model.modules():
        if isinstance(module, nn.ModuleList):
            alike: dict[str, list[nn.Module]] = defaultdict(list)
            for child in module:
                alike[repr(child)].append(child)
            for children in alike.values():
                for child in children if len(children) > 1 else []:
                    child.compile()
