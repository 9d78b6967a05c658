"""Stochastic depth: drop a whole residual branch for some of the examples."""

import torch
from torch import Tensor, nn


class DropPath(nn.Module):
    """Zeroes the branch of each example with the given probability, and keeps the mean; torch's generator decides."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:  # (batch, ...) -> the same
        if not self.training or not self.probability:
            return x
        keep = 1 - self.probability
        kept = torch.empty(x.shape[0], *[1] * (x.ndim - 1), dtype=x.dtype, device=x.device).bernoulli_(keep)
        return x * (kept / keep)
