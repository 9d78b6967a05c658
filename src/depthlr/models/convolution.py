"""A stride-1 convolution that keeps the spatial size, on a torus or with zeros at the border (Sec. 3.1)."""

from torch import nn

from depthlr.models.argument import choice, positive_integer

CONVOLUTIONS: dict[int, type[nn.Conv1d] | type[nn.Conv2d]] = {1: nn.Conv1d, 2: nn.Conv2d}
PADDINGS: dict[tuple[str, int], type[nn.Module]] = {
    ("circular", 1): nn.CircularPad1d,
    ("circular", 2): nn.CircularPad2d,
    ("zeros", 1): nn.ZeroPad1d,
    ("zeros", 2): nn.ZeroPad2d,
}


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
    sides = ((kernel - 1) // 2, kernel // 2) * dimensions
    return nn.Sequential(PADDINGS[padding, dimensions](sides), convolution(inputs, outputs, kernel, bias=bias))
