"""The models that ship with depthlr, by name."""

import inspect
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

ModelArguments = Mapping[str, Any]


@dataclass(frozen=True)
class ZooEntry:
    """A zoo model: its class, the input shape for its arguments, and the arguments for an input shape."""

    builder: Callable[..., nn.Module]
    input: Callable[[ModelArguments], InputShape]
    arguments_for: Callable[[InputShape], dict[str, int]]

    @property
    def defaults(self) -> dict[str, Any]:
        """All arguments of the model with their defaults."""
        return {name: p.default for name, p in inspect.signature(self.builder).parameters.items()}


def _vector(arguments: ModelArguments) -> InputShape:
    return Floats((arguments["inputs"],))


def _sequence(arguments: ModelArguments) -> InputShape:
    return Floats((arguments["inputs"], 256))


def _cifar_image(arguments: ModelArguments) -> InputShape:
    return Floats((arguments["inputs"], 32, 32))


def _image_of_size(arguments: ModelArguments) -> InputShape:
    return Floats((arguments["inputs"], arguments["size"], arguments["size"]))


def _tokens(arguments: ModelArguments) -> InputShape:
    return Ids(arguments["context"], arguments["vocabulary"])


def _vector_arguments(shape: InputShape) -> dict[str, int]:
    if not isinstance(shape, Floats):
        raise DepthlrError(f"The input {shape} does not fit this model: write sizes such as 1x8x8 or 64.")
    return {"inputs": shape.size}


def _sequence_arguments(shape: InputShape) -> dict[str, int]:
    return {"inputs": _sizes(shape, 2)[0]}


def _image_arguments(shape: InputShape) -> dict[str, int]:
    return {"inputs": _sizes(shape, 3)[0]}


def _square_image_arguments(shape: InputShape) -> dict[str, int]:
    inputs, height, width = _sizes(shape, 3)
    if height != width:
        raise DepthlrError(f"The input {shape} is not square: this model takes square images.")
    return {"inputs": inputs, "size": height}


def _token_arguments(shape: InputShape) -> dict[str, int]:
    if not isinstance(shape, Ids):
        raise DepthlrError(f"The input {shape} does not fit this model: write ids:SEQUENCE:VOCABULARY.")
    return {"context": shape.sequence, "vocabulary": shape.vocabulary}


def _sizes(shape: InputShape, dimensions: int) -> tuple[int, ...]:
    if not isinstance(shape, Floats) or len(shape.shape) != dimensions:
        example = "x".join(("3", "32", "32")[:dimensions])
        raise DepthlrError(f"The input {shape} does not fit this model: write {dimensions} sizes, such as {example}.")
    return shape.shape


ZOO: dict[str, ZooEntry] = {
    "mlp": ZooEntry(MLP, _vector, _vector_arguments),
    "cnn": ZooEntry(CNN, _cifar_image, _image_arguments),
    "cnn1d": ZooEntry(CNN1d, _sequence, _sequence_arguments),
    "resnet": ZooEntry(ResNet, _cifar_image, _image_arguments),
    "vit": ZooEntry(ViT, _image_of_size, _square_image_arguments),
    "beit": ZooEntry(BEiT, _image_of_size, _square_image_arguments),
    "cct": ZooEntry(CCT, _image_of_size, _square_image_arguments),
    "gpt": ZooEntry(GPT, _tokens, _token_arguments),
}
