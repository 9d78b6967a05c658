"""Convolutional networks of the paper: the plain CNN (Sec. 3.1, Eq. 3) and the ResNet (Eq. 4, App. C)."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from depthlr import check
from depthlr.models.mlp import make_activation

CONVOLUTIONS: dict[int, type[nn.Conv1d] | type[nn.Conv2d]] = {1: nn.Conv1d, 2: nn.Conv2d}
ZERO_PADDINGS: dict[int, type[nn.Module]] = {1: nn.ZeroPad1d, 2: nn.ZeroPad2d}


class CircularPad(nn.Module):
    """Circular padding in every spatial dimension.

    It concatenates slices, which keeps the channels-last layout and can be fused by a compiler. torch's own circular
    padding does neither, and takes three times as long as the convolution.

    Args:
        before: how many values of the far end to put in front.
        after: how many values of the near end to append.
    """

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.before, self.after = before, after

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space)
        for dimension in range(2, x.dim()):
            size = x.shape[dimension]
            last, first = x.narrow(dimension, size - self.before, self.before), x.narrow(dimension, 0, self.after)
            x = torch.cat((last, x, first), dimension)
        return x


def same_convolution(
    dimensions: int, inputs: int, outputs: int, kernel: int, padding: str = "circular", bias: bool = False
) -> nn.Module:
    """Make a convolution with stride 1 that keeps the spatial size (Sec. 3.1).

    The offsets are -(k-1)//2 to k//2 in each dimension: an even kernel reaches one further to the right.

    Args:
        dimensions: the number of spatial dimensions, 1 or 2.
        inputs: the number of input channels.
        outputs: the number of output channels.
        kernel: the size of the kernel, k.
        padding: circular or zeros.
        bias: whether to add a bias.
    """
    kernel = check.count("kernel", kernel)
    padding = check.one_of("padding", padding, ("circular", "zeros"))
    convolution = CONVOLUTIONS[dimensions]
    if padding == "zeros" and kernel % 2 == 1:  # the convolution pads by itself, without a copy
        return convolution(inputs, outputs, kernel, padding=kernel // 2, bias=bias)
    if kernel == 1:
        return convolution(inputs, outputs, kernel, bias=bias)
    sides = ((kernel - 1) // 2, kernel // 2)
    pad = CircularPad(*sides) if padding == "circular" else ZERO_PADDINGS[dimensions](sides * dimensions)
    return nn.Sequential(pad, convolution(inputs, outputs, kernel, bias=bias))


class CNN(nn.Module):
    """Identical 2-D convolutions, average pooling and a linear head: effective depth `layers` + 1.

    Args:
        layers: the number of convolutions.
        width: the number of channels.
        inputs: the number of input channels.
        classes: the number of outputs.
        kernel: the size of the kernel.
        activation: a key of `ACTIVATIONS`.
        padding: circular or zeros.
        bias: whether the convolutions have a bias.
    """

    dimensions: ClassVar[int] = 2

    def __init__(
        self,
        layers: int = 8,
        width: int = 64,
        inputs: int = 3,
        classes: int = 10,
        kernel: int = 3,
        activation: str = "relu",
        padding: str = "circular",
        bias: bool = False,
    ) -> None:
        super().__init__()
        layers = check.count("layers", layers)
        width = check.count("width", width)
        channels = [check.count("inputs", inputs), *[width] * (layers - 1)]
        convolutions = [
            same_convolution(self.dimensions, n, width, kernel, padding=padding, bias=bias) for n in channels
        ]
        # Each layer is W sigma(z), as in Eq. 3, in one module, so that a compiler needs to compile it only once.
        deeper = (nn.Sequential(make_activation(activation), c) for c in convolutions[1:])
        self.layers = nn.ModuleList([convolutions[0], *deeper])
        self.last_activation = make_activation(activation)
        self.head = nn.Linear(width, check.count("classes", classes))

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, *space) -> (batch, classes)
        for layer in self.layers:
            x = layer(x)  # the pre-activation of the layer
        logits: Tensor = self.head(self.last_activation(x).flatten(2).mean(2))
        return logits


class CNN1d(CNN):
    """The CNN for sequences, (batch, inputs, length): the 1-D case of the paper."""

    dimensions: ClassVar[int] = 1


class ResidualBranch(nn.Sequential):
    """W sigma(z), `branch_layers` times, with BatchNorm after each convolution and dropout at the end.

    With BatchNorm after the last convolution, the scale of its weight, and so the factor K^(-1/2), has no effect.
    """

    def __init__(
        self,
        width: int,
        branch_layers: int,
        kernel: int,
        activation: str,
        padding: str,
        bias: bool,
        batch_norm: bool,
        dropout: float,
        activation_after: bool,
    ) -> None:
        modules: list[nn.Module] = []
        for _ in range(branch_layers):
            # BatchNorm removes the bias of the convolution and has its own.
            weighted = [same_convolution(2, width, width, kernel, padding=padding, bias=bias and not batch_norm)]
            if batch_norm:
                weighted.append(nn.BatchNorm2d(width))
            sigma = make_activation(activation)
            modules += [*weighted, sigma] if activation_after else [sigma, *weighted]
        if dropout:
            modules.append(nn.Dropout(dropout))
        super().__init__(*modules)


class ResidualBlock(nn.Module):
    """z + branch(z)."""

    def __init__(self, branch: ResidualBranch) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, z: Tensor) -> Tensor:
        updated: Tensor = z + self.branch(z)
        return updated


class ResNet(nn.Module):
    """Plain layers, residual blocks z + W sigma(z), pooling and a head: effective depth `plain` + `blocks` + 1.

    Args:
        blocks: the number of residual blocks, K.
        width: the number of channels.
        inputs: the number of input channels.
        classes: the number of outputs.
        plain: the number of plain convolutions before the blocks; the first one is the stem.
        branch_layers: the number of convolutions in a block, 1 or 2.
        kernel: the size of the kernel.
        activation: a key of `ACTIVATIONS`.
        padding: circular or zeros.
        bias: whether the convolutions have a bias.
        batch_norm: whether BatchNorm follows each convolution of a block.
        dropout: the probability of dropping a value at the end of a block.
        activation_after: put sigma after the convolution, z + sigma(W z), as the authors' public code does.
    """

    def __init__(
        self,
        blocks: int = 8,
        width: int = 64,
        inputs: int = 3,
        classes: int = 10,
        plain: int = 1,
        branch_layers: int = 1,
        kernel: int = 3,
        activation: str = "relu",
        padding: str = "zeros",
        bias: bool = False,
        batch_norm: bool = False,
        dropout: float = 0.0,
        activation_after: bool = False,
    ) -> None:
        super().__init__()
        blocks = check.count("blocks", blocks)
        width = check.count("width", width)
        dropout = check.number("dropout", dropout, below=1)
        branch_layers = check.count("branch_layers", branch_layers, most=2)
        channels = [check.count("inputs", inputs), *[width] * (check.count("plain", plain) - 1)]
        self.plain = nn.ModuleList(same_convolution(2, n, width, kernel, padding=padding, bias=bias) for n in channels)
        # One sigma between plain layers. One more follows the last if the blocks expect activations.
        between = len(channels) if activation_after else len(channels) - 1
        self.plain_activations = nn.ModuleList(make_activation(activation) for _ in range(between))
        branches = (
            ResidualBranch(
                width, branch_layers, kernel, activation, padding, bias, batch_norm, dropout, activation_after
            )
            for _ in range(blocks)
        )
        self.blocks = nn.ModuleList(ResidualBlock(branch) for branch in branches)
        # z^(K) is a pre-activation, so the head reads sigma(z^(K)), as in the CNN. With activation_after the stream is
        # already a sum of activations, and the head reads it directly.
        self.last_activation = nn.Identity() if activation_after else make_activation(activation)
        self.head = nn.Linear(width, check.count("classes", classes))

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, height, width) -> (batch, classes)
        for index, convolution in enumerate(self.plain):
            x = convolution(x)
            if index < len(self.plain_activations):
                x = self.plain_activations[index](x)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(torch.mean(self.last_activation(x), dim=(2, 3)))
        return logits
