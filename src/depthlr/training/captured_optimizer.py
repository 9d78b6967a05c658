"""Optimizers whose rate is a tensor on the device, so that one captured step serves every rate of a schedule.

Torch's fused SGD, Adam and AdamW read their rate from the device. Its Muon reads a number from the host, so ours stands
here; tests compare it with torch's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from depthlr.training.task import Training

MOMENTUM, POLYNOMIAL, ITERATIONS = 0.95, (3.4445, -4.775, 2.0315), 5


class CapturedMuon(Optimizer):
    """Muon on matrices: momentum, orthogonalised by five Newton-Schulz steps in bf16."""

    def __init__(self, parameters: Sequence[nn.Parameter], lr: Tensor, weight_decay: float) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                state["momentum"].lerp_(gradient, 1 - MOMENTUM)
                update = _orthogonalised(gradient.lerp(state["momentum"], MOMENTUM))
                rows, columns = parameter.shape
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.sub_(update * (group["lr"] * max(1.0, rows / columns) ** 0.5))


def _orthogonalised(matrix: Tensor) -> Tensor:
    """The nearest matrix with all singular values near 1, by a quintic iteration on the wide side."""
    a, b, c = POLYNOMIAL
    x = matrix.bfloat16()
    tall = matrix.shape[0] > matrix.shape[1]
    x = x.T if tall else x
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def captured_optimizers(training: Training, parameters: Sequence[nn.Parameter], rate: Tensor) -> list[Optimizer]:
    """The optimizer of a cell, reading its rate from `rate` at every step."""
    decay = training.weight_decay
    capturable = rate.is_cuda  # keeps Adam's step count on the device
    if training.optimizer in {"sgd", "momentum"}:
        momentum = training.momentum if training.optimizer == "momentum" else 0.0
        return [SGD(parameters, lr=rate, momentum=momentum, weight_decay=decay, fused=True)]
    if training.optimizer == "adam":
        return [Adam(parameters, lr=rate, weight_decay=decay, fused=True, capturable=capturable)]
    if training.optimizer == "adamw":
        return [AdamW(parameters, lr=rate, weight_decay=decay, fused=True, capturable=capturable)]
    matrices = [p for p in parameters if p.dim() == 2]
    rest = [p for p in parameters if p.dim() != 2]
    made: list[Optimizer] = [CapturedMuon(matrices, rate, decay)] if matrices else []
    if rest:
        made.append(AdamW(rest, lr=rate, weight_decay=decay, fused=True, capturable=capturable))
    return made


def forget(optimizers: Sequence[Optimizer]) -> None:
    """Set moments and step counts to zero, in place: the state before the first step."""
    for optimizer in optimizers:
        for slots in optimizer.state.values():
            for value in slots.values():
                if isinstance(value, Tensor):
                    value.zero_()
