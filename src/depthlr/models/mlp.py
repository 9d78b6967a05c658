"""A plain multilayer perceptron: z1 = W1 x, z(l) = W(l) sigma(z(l-1)), then a linear head (Sec. 3.1, Eq. 2)."""

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
    """A fresh module: every place in a model has its own, so that hooks can tell them apart."""
    return ACTIVATIONS[check.one_of("activation", name, ACTIVATIONS)]()


class MLP(nn.Module):
    """`layers` hidden linear layers and a head: effective depth layers + 1."""

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
        # The theory has no biases (Eq. 2), so the hidden layers have none unless asked.
        self.hidden = nn.ModuleList(nn.Linear(n, width, bias=bias) for n in fan_in)
        self.activations = nn.ModuleList(make_activation(activation) for _ in fan_in)
        self.head = nn.Linear(width, check.count("classes", classes))

    def forward(self, x: Tensor) -> Tensor:  # (batch, ...) with `inputs` numbers an example -> (batch, classes)
        x = x.flatten(1)
        for linear, activation in zip(self.hidden, self.activations, strict=True):
            x = activation(linear(x))
        logits: Tensor = self.head(x)
        return logits
