"""The activation functions by name, and the multilayer perceptron (Sec. 3.1, Eq. 2)."""

from collections.abc import Callable

from torch import Tensor, nn

from depthlr import check

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "leaky_relu": nn.LeakyReLU,
    "identity": nn.Identity,
}


def make_activation(name: str) -> nn.Module:
    """Make a new activation module. Every layer has its own, so that hooks can tell them apart.

    Args:
        name: a key of `ACTIVATIONS`.
    """
    return ACTIVATIONS[check.one_of("activation", name, ACTIVATIONS)]()


class MLP(nn.Module):
    """z(1) = W(1) x, z(l) = W(l) sigma(z(l-1)), then a linear head: effective depth `layers` + 1.

    Args:
        layers: the number of hidden layers.
        width: the number of features in a hidden layer.
        inputs: the number of values in an example.
        classes: the number of outputs.
        activation: a key of `ACTIVATIONS`.
        bias: whether the hidden layers have a bias. The theory has none (Eq. 2).
    """

    def __init__(
        self,
        layers: int = 8,
        width: int = 256,
        inputs: int = 3 * 32 * 32,
        classes: int = 10,
        activation: str = "relu",
        bias: bool = False,
    ) -> None:
        super().__init__()
        layers = check.count("layers", layers)
        width = check.count("width", width)
        fan_in = [check.count("inputs", inputs), *[width] * (layers - 1)]
        self.hidden = nn.ModuleList(nn.Linear(n, width, bias=bias) for n in fan_in)
        self.activations = nn.ModuleList(make_activation(activation) for _ in fan_in)
        self.head = nn.Linear(width, check.count("classes", classes))

    def forward(self, x: Tensor) -> Tensor:  # (batch, ...), flattened to (batch, inputs) -> (batch, classes)
        x = x.flatten(1)
        for linear, activation in zip(self.hidden, self.activations, strict=True):
            x = activation(linear(x))
        logits: Tensor = self.head(x)
        return logits
