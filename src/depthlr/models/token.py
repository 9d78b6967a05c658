"""Learnable tokens: a class token and positions are parameters, drawn small (Sec. 3.1: truncated normal)."""

import torch
from torch import Tensor, nn

from depthlr.models.argument import divisor, positive_integer


def small_parameter(*shape: int) -> nn.Parameter:
    """A parameter of this shape, truncated normal with standard deviation 0.02."""
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(*shape), std=0.02))


class PatchEmbedding(nn.Module):
    """Cuts a square image into patches and projects each to a token, by one convolution; one depth unit."""

    def __init__(self, inputs: int, size: int, patch: int, width: int) -> None:
        super().__init__()
        size = positive_integer("size", size)
        patch = divisor("patch", positive_integer("patch", patch), "size", size)
        self.side = size // patch
        self.project = nn.Conv2d(positive_integer("inputs", inputs), width, patch, stride=patch)

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, size, size) -> (batch, side * side, width)
        tokens: Tensor = self.project(x)
        return tokens.flatten(2).transpose(1, 2)
