"""The paper's ResNet: plain layers, then K residual blocks z + W sigma(z), pooling, head (Eq. 4, App. C)."""

import torch
from torch import Tensor, nn

from depthlr.errors import DepthlrError
from depthlr.models.activation import activation_named
from depthlr.models.argument import fraction, positive_integer
from depthlr.models.convolution import same_convolution


class Branch(nn.Sequential):
    """W sigma(z), `branch_layers` times; BatchNorm stands right after each convolution, dropout at the end.

    BatchNorm after the last convolution makes the branch blind to that weight's scale, hence to K^(-1/2) on it.
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
            # BatchNorm subtracts whatever bias the convolution adds and has one of its own.
            weighted = [same_convolution(2, width, width, kernel, padding=padding, bias=bias and not batch_norm)]
            if batch_norm:
                weighted.append(nn.BatchNorm2d(width))
            sigma = activation_named(activation)
            modules += [*weighted, sigma] if activation_after else [sigma, *weighted]
        if dropout:
            modules.append(nn.Dropout(dropout))
        super().__init__(*modules)


class Block(nn.Module):
    """z + branch(z)."""

    def __init__(self, branch: Branch) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, z: Tensor) -> Tensor:
        updated: Tensor = z + self.branch(z)
        return updated


class ResNet(nn.Module):
    """`plain` plain layers (the stem is the first), `blocks` residual blocks, a head: effective depth is their sum.

    `activation_after=True` puts sigma behind the convolution, z + sigma(W z), as the authors' public code ran it.
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
        blocks = positive_integer("blocks", blocks)
        width = positive_integer("width", width)
        dropout = fraction("dropout", dropout)
        if branch_layers not in (1, 2):
            raise DepthlrError(f"branch_layers={branch_layers!r} is not offered: choose 1 or 2.")
        channels = [positive_integer("inputs", inputs), *[width] * (positive_integer("plain", plain) - 1)]
        self.plain = nn.ModuleList(same_convolution(2, n, width, kernel, padding=padding, bias=bias) for n in channels)
        # One sigma between plain layers; one more behind the last only where the blocks expect activations.
        between = len(channels) if activation_after else len(channels) - 1
        self.plain_activations = nn.ModuleList(activation_named(activation) for _ in range(between))
        branches = (
            Branch(width, branch_layers, kernel, activation, padding, bias, batch_norm, dropout, activation_after)
            for _ in range(blocks)
        )
        self.blocks = nn.ModuleList(Block(branch) for branch in branches)
        # z^(K) is a pre-activation like any other, so the head reads sigma(z^(K)), as it does in the CNN. With sigma
        # behind the convolutions the stream is already a sum of activations, and goes to the head as it is.
        self.last_activation = nn.Identity() if activation_after else activation_named(activation)
        self.head = nn.Linear(width, positive_integer("classes", classes))

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, height, width) -> (batch, classes)
        for index, convolution in enumerate(self.plain):
            x = convolution(x)
            if index < len(self.plain_activations):
                x = self.plain_activations[index](x)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(torch.mean(self.last_activation(x), dim=(2, 3)))
        return logits
