"""A stride-1 convolution that keeps the spatial size, on a torus or with zeros at the border (Sec. 3.1)."""

import torch
from torch import Tensor, nn

from depthlr.errors import DepthlrError
from depthlr.models.argument import choice, positive_integer

CONVOLUTIONS: dict[int, type[nn.Conv1d] | type[nn.Conv2d]] = {1: nn.Conv1d, 2: nn.Conv2d}
ZERO_PADDINGS: dict[int, type[nn.Module]] = {1: nn.ZeroPad1d, 2: nn.ZeroPad2d}


class CircularPad(nn.Module):
    """A torus cut open: `before` sites of the far side in front, `after` of the near side behind, in each dimension.

    Joined from slices, it keeps channels-last memory and fuses with its neighbours when compiled; torch's own circular
    padding does neither, and its copies cost three times the convolution.
    """

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.before, self.after = before, after

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space)
        for dimension in range(2, x.dim()):
            size = x.shape[dimension]
            if max(self.before, self.after) > size:
                raise DepthlrError(f"a kernel of {self.before + self.after + 1} does not fit around {size} sites.")
            last, first = x.narrow(dimension, size - self.before, self.before), x.narrow(dimension, 0, self.after)
            x = torch.cat((last, x, first), dimension)
        return x


def same_convolution(
    dimensions: int, inputs: int, outputs: int, kernel: int, padding: str = "circular", bias: bool = False
) -> nn.Module:
    """Offsets Delta = -(k-1)//2 .. k//2 in each dimension, so an even kernel reaches one further to the right."""
    kernel = positive_integer("kernel", kernel)
    padding = choice("padding", padding, ("circular", "zeros"))
    convolution = CONVOLUTIONS[dimensions]
    if padding == "zeros" and kernel % 2 == 1:  # the convolution's own padding makes no padded copy
        return convolution(inputs, outputs, kernel, padding=kernel // 2, bias=bias)
    if kernel == 1:
        return convolution(inputs, outputs, kernel, bias=bias)
    sides = ((kernel - 1) // 2, kernel // 2)
    pad = CircularPad(*sides) if padding == "circular" else ZERO_PADDINGS[dimensions](sides * dimensions)
    return nn.Sequential(pad, convolution(inputs, outputs, kernel, bias=bias))
