"""The learning-rate range tests that people use: our own short versions of two published procedures.

Both train once while the rate rises exponentially, smooth the loss, stop when it has grown too far, and suggest the
rate at which the loss fell most steeply. Defaults are those of the packages: `LRFinder.range_test` with the rates of
its README (1e-7 to 100), steepest per step of the ramp; Lightning's `Tuner.lr_find` (1e-8 to 1), steepest per unit of
rate. Lightning refuses two optimizers, as Muon has them; here both ramp together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

Batch = tuple[Tensor, Tensor]
LossFn = Callable[[Any, Tensor], Tensor]
STEPS = 100


@dataclass(frozen=True)
class RangeTest:
    """`rates` are the ramp's, `smooth` turns raw losses into smooth ones, `suggest` picks a rate from both."""

    rates: tuple[float, ...]
    smooth: Callable[[Iterable[float]], Iterator[float]]
    patience: float  # the ramp ends where the smooth loss is so many times the best
    suggest: Callable[[Sequence[float], Sequence[float]], float | None]

    def __call__(
        self, model: nn.Module, optimizers: Sequence[Optimizer], batches: Iterable[Batch], loss_fn: LossFn
    ) -> float | None:
        """The suggested rate, or None where there are too few losses to suggest one. The model is trained."""
        losses: list[float] = []
        raw = _ramp(model, optimizers, zip(self.rates, batches, strict=False), loss_fn)
        for loss in self.smooth(raw):
            losses.append(loss)
            if not loss <= self.patience * min(losses):
                break
        return self.suggest(self.rates[: len(losses)], losses)


def _ramp(
    model: nn.Module, optimizers: Sequence[Optimizer], ramp: Iterable[tuple[float, Batch]], loss_fn: LossFn
) -> Iterator[float]:
    """The loss of each step, before it is taken."""
    for rate, (inputs, target) in ramp:
        loss: Tensor = loss_fn(model(inputs), target)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        yield float(loss.detach())


def _exponential_smoothing(losses: Iterable[float]) -> Iterator[float]:
    smooth = None
    for loss in losses:
        smooth = loss if smooth is None else 0.05 * loss + 0.95 * smooth
        yield smooth


def _corrected_smoothing(losses: Iterable[float]) -> Iterator[float]:
    """With Adam's correction for starting at zero; Lightning counts the step that is just done as well."""
    average = 0.0
    for step, loss in enumerate(losses, 1):
        average = 0.98 * average + 0.02 * loss
        yield average / (1 - 0.98 ** (step + 1))


def _steepest_by_step(rates: Sequence[float], losses: Sequence[float]) -> float | None:
    kept = losses[10:-5]
    return rates[10 + int(np.gradient(np.array(kept)).argmin())] if len(kept) > 1 else None


def _steepest_by_rate(rates: Sequence[float], losses: Sequence[float]) -> float | None:
    kept = [(rate, loss) for rate, loss in list(zip(rates, losses, strict=True))[10:-1] if math.isfinite(loss)]
    if len(kept) < 2:
        return None
    x, y = np.array(kept).T
    return float(x[np.gradient(y, x).argmin()])


def _ramp_rates(low: float, high: float, shares: Iterable[float]) -> tuple[float, ...]:
    return tuple(low * (high / low) ** share for share in shares)


_EVENLY = [step / (STEPS - 1) for step in range(STEPS)]
_ONE_AHEAD = [0.0, *((step + 1) / STEPS for step in range(1, STEPS))]  # Lightning's ramp skips its second rate


RANGE_TESTS: dict[str, RangeTest] = {
    "pytorch-lr-finder": RangeTest(_ramp_rates(1e-7, 100.0, _EVENLY), _exponential_smoothing, 5.0, _steepest_by_step),
    "lightning": RangeTest(_ramp_rates(1e-8, 1.0, _ONE_AHEAD), _corrected_smoothing, 4.0, _steepest_by_rate),
}
