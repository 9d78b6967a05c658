"""A short run whose rate rises until it blows up: where it does depends on all that training does to a model."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.transferbench.probe import Batch, LossFn
from torch import Tensor, nn
from torch.optim import Optimizer

A_DECADE, DECADES = 8, 4
STEPS = A_DECADE * DECADES
BLOWN_UP = 6.0  # times the first loss: there is nothing more to see


@dataclass(frozen=True)
class Ramp:
    """The loss before each step, the last of them the one that ended the ramp."""

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    seconds: float

    def passes(self, times: float) -> float | None:
        """The first rate after which the loss is so many times the first, if it comes to that."""
        steps = zip(self.rates, self.losses[1:], strict=False)
        return next((rate for rate, loss in steps if not loss <= times * self.losses[0]), None)


def run_ramp(
    model: nn.Module, optimizers: Sequence[Optimizer], batches: Iterable[Batch], loss_fn: LossFn, start: float
) -> Ramp:
    """From the rate `start` up, eight steps a decade. The model is trained."""
    rates = [start * 10 ** (step / A_DECADE) for step in range(STEPS)]
    began, losses = time.perf_counter(), []
    for loss in ramp_losses(model, optimizers, zip(rates, batches, strict=False), loss_fn):
        losses.append(loss)
        if not loss <= BLOWN_UP * losses[0]:
            break
    return Ramp(tuple(rates[: len(losses)]), tuple(losses), time.perf_counter() - began)


def ramp_losses(
    model: nn.Module, optimizers: Sequence[Optimizer], steps: Iterable[tuple[float, Batch]], loss_fn: LossFn
) -> Iterator[float]:
    """The loss of each step, before it is taken at its rate."""
    for rate, (inputs, target) in steps:
        loss: Tensor = loss_fn(model(inputs), target)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        yield float(loss.detach())
