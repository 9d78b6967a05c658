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

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class ZooEntry:
    """A builder, the input its arguments call for, and the arguments a given input calls for."""

    builder: Callable[..., nn.Module]
    input: Callable[[Arguments], InputShape]
    arguments_for: Callable[[InputShape], dict[str, int]]

    @property
    def defaults(self) -> dict[str, Any]:
        """Every argument of the builder with its default."""
        return {name: p.default for name, p in inspect.signature(self.builder).parameters.items()}


def _check_dimensions(shape: InputShape, dimensions: int) -> Floats:
    if not isinstance(shape, Floats) or len(shape.shape) != dimensions:
        example = "x".join(("3", "32", "32")[:dimensions])
        raise DepthlrError(f"The input {shape} does not suit this model: write {dimensions} sizes, such as {example}.")
    return shape


def _mlp_arguments(shape: InputShape) -> dict[str, int]:
    if not isinstance(shape, Floats):
        raise DepthlrError(f"The input {shape} does not suit this model: write sizes such as 1x8x8 or 64.")
    return {"inputs": shape.size}


def _convolution_arguments(dimensions: int) -> Callable[[InputShape], dict[str, int]]:
    return lambda shape: {"inputs": _check_dimensions(shape, dimensions).shape[0]}


def _image_arguments(shape: InputShape) -> dict[str, int]:
    inputs, height, width = _check_dimensions(shape, 3).shape
    if height != width:
        raise DepthlrError(f"The input {shape} is not square: this model takes images as high as wide.")
    return {"inputs": inputs, "size": height}


def _text_arguments(shape: InputShape) -> dict[str, int]:
    if not isinstance(shape, Ids):
        raise DepthlrError(f"The input {shape} does not suit this model: write ids:SEQUENCE:VOCABULARY.")
    return {"context": shape.sequence, "vocabulary": shape.vocabulary}


def _image_shape(arguments: Arguments) -> Floats:
    return Floats((arguments["inputs"], arguments["size"], arguments["size"]))


ZOO: dict[str, ZooEntry] = {
    "mlp": ZooEntry(MLP, lambda a: Floats((a["inputs"],)), _mlp_arguments),
    "cnn": ZooEntry(CNN, lambda a: Floats((a["inputs"], 32, 32)), _convolution_arguments(3)),
    "cnn1d": ZooEntry(CNN1d, lambda a: Floats((a["inputs"], 256)), _convolution_arguments(2)),
    "resnet": ZooEntry(ResNet, lambda a: Floats((a["inputs"], 32, 32)), _convolution_arguments(3)),
    "vit": ZooEntry(ViT, _image_shape, _image_arguments),
    "beit": ZooEntry(BEiT, _image_shape, _image_arguments),
    "cct": ZooEntry(CCT, _image_shape, _image_arguments),
    "gpt": ZooEntry(GPT, lambda a: Ids(a["context"], a["vocabulary"]), _text_arguments),
}
