"""The models that ship with depthlr, by name."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from depthlr.errors import DepthlrError
from depthlr.models.convolution import CNN, CNN1d, ResNet
from depthlr.models.inputs import Floats, Ids, InputShape
from depthlr.models.mlp import MLP
from depthlr.models.transformer import GPT
from depthlr.models.vit import CCT, BEiT, ViT


@dataclass(frozen=True)
class ZooEntry:
    """A zoo model: its class, and the shape of its inputs, in which the name of an argument stands for its value.

    A model of `tokens` takes ids instead of numbers. A `flat` model takes inputs of any number of dimensions.
    """

    builder: Callable[..., nn.Module]
    shape: tuple[str | int, ...]
    tokens: bool = False
    flat: bool = False

    @property
    def defaults(self) -> dict[str, Any]:
        """All arguments of the model with their defaults."""
        return {name: p.default for name, p in inspect.signature(self.builder).parameters.items()}

    def input(self, arguments: Mapping[str, Any]) -> InputShape:
        """Return the input shape that the model takes.

        Args:
            arguments: all arguments of the model.
        """
        sizes = []
        for size in self.shape:
            sizes.append(arguments[size] if isinstance(size, str) else size)
        if self.tokens:
            return Ids(*sizes)
        return Floats(tuple(sizes))

    def arguments_for(self, shape: InputShape) -> dict[str, int]:
        """Return the arguments with which the model takes inputs of a shape.

        Args:
            shape: the shape of one input.

        Raises:
            DepthlrError: the model takes inputs of another kind.
        """
        sizes = (shape.sequence, shape.vocabulary) if isinstance(shape, Ids) else shape.shape
        if self.flat:
            sizes = (math.prod(sizes),)
        if isinstance(shape, Ids) != self.tokens or len(sizes) != len(self.shape):
            fitting = self.input(self.defaults)
            raise DepthlrError(f"The input {shape} does not fit this model: write one such as {fitting}.")
        found: dict[str, int] = {}
        for name, size in zip(self.shape, sizes, strict=True):
            if isinstance(name, str) and found.setdefault(name, size) != size:
                raise DepthlrError(f"The input {shape} is not square: this model takes square images.")
        return found


ZOO: dict[str, ZooEntry] = {
    "mlp": ZooEntry(MLP, ("inputs",), flat=True),
    "cnn": ZooEntry(CNN, ("inputs", 32, 32)),
    "cnn1d": ZooEntry(CNN1d, ("inputs", 256)),
    "resnet": ZooEntry(ResNet, ("inputs", 32, 32)),
    "vit": ZooEntry(ViT, ("inputs", "size", "size")),
    "beit": ZooEntry(BEiT, ("inputs", "size", "size")),
    "cct": ZooEntry(CCT, ("inputs", "size", "size")),
    "gpt": ZooEntry(GPT, ("context", "vocabulary"), tokens=True),
}
