"""The pointwise nonlinearity sigma, by name."""

from collections.abc import Callable

from torch import nn

from depthlr.models.argument import choice

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "leaky_relu": nn.LeakyReLU,
    "identity": nn.Identity,
}


def activation_named(name: str) -> nn.Module:
    """A fresh module: every place in a model has its own, so that hooks can tell them apart."""
    return ACTIVATIONS[choice("activation", name, ACTIVATIONS)]()
