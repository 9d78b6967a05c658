"""Two optimizers that are used without tuning a rate, at the defaults of their authors' packages, written anew.

`Prodigy` (Mishchenko and Defazio 2023, package prodigyopt) estimates the rate while it trains. `ScheduleFreeAdamW`
(Defazio and others 2024, package schedulefree) averages weights in place of a schedule. Weights and states are flat
vectors, so a step takes a few kernels whatever the number of tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

EPS = 1e-8


class Flat(Optimizer):
    """Parameters whose update is computed on one vector of all of them."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(list(parameters), {"lr": lr})
        self._parameters: list[nn.Parameter] = self.param_groups[0]["params"]
        self.moments = torch.zeros_like(self._flat()), torch.zeros_like(self._flat())

    def _flat(self) -> Tensor:
        return torch.cat([p.detach().flatten() for p in self._parameters])

    def _gradient(self) -> Tensor:
        found = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        return torch.cat([gradient.flatten() for gradient in found])

    @torch.no_grad()
    def _write(self, weights: Tensor) -> None:
        parts = torch.split(weights, [p.numel() for p in self._parameters])
        for parameter, part in zip(self._parameters, parts, strict=True):
            parameter.copy_(part.view_as(parameter))


class Prodigy(Flat):
    """Adam whose rate grows to an estimate of the distance from the start to a solution.

    Args:
        parameters: What is trained.
        lr: A factor on the estimate; a schedule multiplies it.
        betas: As in Adam.
        d0: The first estimate.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 1.0,
        betas: tuple[float, float] = (0.9, 0.999),
        d0: float = 1e-6,
    ) -> None:
        super().__init__(parameters, lr)
        self._betas, self._d0 = betas, d0
        start = self._flat()
        self.d = torch.tensor(d0, device=start.device, dtype=start.dtype)
        self._most, self._numerator = self.d.clone(), torch.zeros_like(self.d)
        self._start, self._sum = start, torch.zeros_like(start)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        beta1, beta2 = self._betas
        beta3, rate = beta2**0.5, self.d * self.param_groups[0]["lr"]
        gradient, weights = self._gradient(), self._flat()
        first, second = self.moments
        first.mul_(beta1).add_(self.d * gradient, alpha=1 - beta1)
        second.mul_(beta2).add_((self.d * gradient).square(), alpha=1 - beta2)
        # Algorithm 4 of the paper: r and s, and the estimate d = r / |s|_1.
        self._numerator.mul_(beta3).add_(self.d / self._d0 * rate * gradient.dot(self._start - weights))
        self._sum.mul_(beta3).add_(self.d / self._d0 * rate * gradient)
        estimate = self._numerator / self._sum.abs().sum().clamp(min=torch.finfo(weights.dtype).tiny)
        self._most = torch.maximum(self._most, estimate)
        self.d = torch.maximum(self.d, self._most)
        self._write(weights - rate * first / (second.sqrt() + self.d * EPS))


class ScheduleFreeAdamW(Flat):
    """AdamW at a constant rate after a warm-up. Gradients are taken between the fast weights and their average.

    Args:
        parameters: What is trained.
        lr: The rate.
        betas: The first interpolates between fast and average weights, the second is Adam's.
        warmup: Steps over which the rate rises.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 0.0025,
        betas: tuple[float, float] = (0.9, 0.999),
        warmup: int = 0,
    ) -> None:
        super().__init__(parameters, lr)
        self._betas, self._warmup = betas, warmup
        self._fast = self._flat()  # z; the parameters are y, their average x
        self._steps, self._weights = 0, 0.0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        beta1, beta2 = self._betas
        self._steps += 1
        rate = self.param_groups[0]["lr"] * min(1.0, self._steps / max(1, self._warmup))
        self._weights += rate**2
        share = rate**2 / self._weights
        gradient, between, second = self._gradient(), self._flat(), self.moments[1]
        second.mul_(beta2).add_(gradient.square(), alpha=1 - beta2)
        update = gradient / ((second / (1 - beta2**self._steps)).sqrt() + EPS)
        between = between.lerp(self._fast, share) - rate * (1 - beta1 * (1 - share)) * update
        self._fast -= rate * update
        self._write(between)

    def average(self) -> None:
        """Write the average of the weights into the parameters; to be evaluated, not trained on."""
        self._write(self._flat().lerp(self._fast, 1 - 1 / self._betas[0]))
