"""The paper's homogeneous CNN: identical stride-1 conv + sigma, average pooling, linear head (Sec. 3.1, Eq. 3)."""

from typing import ClassVar

from torch import Tensor, nn

from depthlr.models.activation import activation_named
from depthlr.models.argument import positive_integer
from depthlr.models.convolution import same_convolution


class CNN(nn.Module):
    """`layers` 2-D convolutions and a head: effective depth layers + 1."""

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
        layers = positive_integer("layers", layers)
        width = positive_integer("width", width)
        channels = [positive_integer("inputs", inputs), *[width] * (layers - 1)]
        convolutions = [
            same_convolution(self.dimensions, n, width, kernel, padding=padding, bias=bias) for n in channels
        ]
        # Each layer is W sigma(z), as in Eq. 3: what repeats is one module, which a compiler fuses once for all.
        deeper = (nn.Sequential(activation_named(activation), c) for c in convolutions[1:])
        self.layers = nn.ModuleList([convolutions[0], *deeper])
        self.last_activation = activation_named(activation)
        self.head = nn.Linear(width, positive_integer("classes", classes))

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, *space) -> (batch, classes)
        for layer in self.layers:
            x = layer(x)  # the pre-activation of the layer
        logits: Tensor = self.head(self.last_activation(x).flatten(2).mean(2))
        return logits


class CNN1d(CNN):
    """The same on sequences, (batch, inputs, length): the paper's 1-D case."""

    dimensions: ClassVar[int] = 1
