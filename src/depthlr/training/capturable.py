"""A run as tensor work on fixed buffers: no host in the loop, so a CUDA graph can replay its step.

The step number, the order of the examples, their augmentation, the rate, its schedule and the losses all live on the
device. Of data that stay on the host, the batch does (`feed.py`): `advance` fetches it before each step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from depthlr.data.examples import Examples
from depthlr.optimizers import reset_state
from depthlr.training.feed import Feed
from depthlr.training.task import HeldOut, Task, TrainingStep, WeightAverage, copy_model


@dataclass(frozen=True)
class Start:
    """A seed's beginning on a device: weights and buffers, the order of examples, and what augments them."""

    state: Mapping[str, Tensor]
    order: Tensor  # int64 (steps, batch); on the host if the examples are
    chances: Tensor  # float32 (steps, batch, ...)


class CapturableRun:
    """A model, its optimizer and its place in a run; calling it takes one step."""

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        examples: Examples,
        device: torch.device,
        *,
        compiled: bool,
        held_out: Examples | None = None,
    ) -> None:
        training = task.training
        self.device, self.examples, self._compiled = device, examples, compiled
        self.model = copy_model(task, model).to(self.device).train()
        if any(isinstance(m, nn.Conv2d) for m in self.model.modules()):  # the first of them converts its input
            self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._average = None if training.ema is None else WeightAverage(task, self.model, training.ema)
        if compiled:
            compile_repeated(self.model)
        steps = training.run_steps
        self._factors = torch.tensor(training.rate_factors(), dtype=torch.float64).to(self.device, torch.float32)
        self._feed = Feed(examples, steps, training.batch, self.device, task.loaders)
        self.advance = self._feed.advance  # before each step
        self._chances = torch.zeros_like(task.chances(0), device=self.device)
        self._place = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._base = torch.zeros(1, device=self.device)
        self.rate = torch.zeros((), device=self.device)
        self.losses = torch.zeros(steps, device=self.device)
        self.optimizers = training.make_optimizers(self.model, self.rate, captured=True)
        self._step = TrainingStep(task, self.model, self._feed, self.optimizers, self.device)
        self.held_out = None if held_out is None else HeldOut(task, held_out, self.device)

    def load(self, start: Start, rate: float) -> None:
        """Begin a run at a rate. Asynchronous on a GPU.

        Args:
            start: What the seed decides.
            rate: The rate.
        """
        with torch.no_grad():
            for name, tensor in (*self.model.named_parameters(), *self.model.named_buffers()):
                tensor.copy_(start.state[name])
        if self._average is not None:
            self._average.restart(self.model)
        reset_state(self.optimizers)
        self._feed.restart(start.order)
        self._chances.copy_(start.chances)
        self._base.fill_(rate)
        self._place.zero_()
        self.losses.zero_()

    def __call__(self) -> None:
        """One step."""
        self.rate.copy_((self._base * self._factors.index_select(0, self._place)).squeeze(0))
        loss = self._step(self._feed.take(), self._chances.index_select(0, self._place).squeeze(0))
        if self._average is not None:
            self._average.update(self.model)
        self.losses.index_copy_(0, self._place, loss.view(1))
        self._place.add_(1)

    def evaluate_batch(self) -> None:
        """The next batch of held-out data, by the average of the weights where one is kept."""
        assert self.held_out is not None
        model = self.model if self._average is None else self._average.model
        # Another mode would be another compilation; one pass is too short to repay it.
        with torch.compiler.set_stance("force_eager") if self._compiled else nullcontext():
            self.held_out.add_batch(model)

    def draws_at_random(self) -> bool:
        """Take one step: does it draw random numbers (dropout, stochastic depth)?"""
        self.advance()
        before = self._random_state()
        self()
        return not torch.equal(before, self._random_state())

    def _random_state(self) -> Tensor:
        """Of the generator from which models on the device draw; it lies on the host."""
        return torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else torch.get_rng_state()


def draw_start(task: Task, model: nn.Module, seed: int, device: torch.device, *, on_host: bool = False) -> Start:
    """The start of a seed, drawn on the CPU into `model`, so that every device starts from the same numbers.

    Args:
        task: What is trained.
        model: The model to draw into.
        seed: The seed of the cell.
        device: Where it is trained.
        on_host: The examples stay on the host, and so does their order.
    """
    task.initialize(model, seed)
    named = (*model.named_parameters(), *model.named_buffers())
    state = {name: tensor.detach().to(device, copy=True) for name, tensor in named}
    order = task.order(seed)
    return Start(state, order if on_host else order.to(device), task.chances(seed).to(device))


def compile_repeated(model: nn.Module) -> None:
    """Compile what repeats (the layers or blocks of a ModuleList): one compilation serves all of them, at any depth.

    Args:
        model: The model. Its modules are compiled in place.
    """
    for module in model.modules():
        if isinstance(module, nn.ModuleList):
            alike: dict[str, list[nn.Module]] = defaultdict(list)
            for child in module:
                alike[repr(child)].append(child)
            for children in alike.values():
                for child in children if len(children) > 1 else []:
                    child.compile()
