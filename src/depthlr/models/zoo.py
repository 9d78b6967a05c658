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
class Entry:
    """A builder, the input its arguments call for, and the arguments a given input calls for."""

    builder: Callable[..., nn.Module]
    input: Callable[[Arguments], InputShape]
    arguments_for: Callable[[InputShape], dict[str, int]]

    @property
    def defaults(self) -> dict[str, Any]:
        """Every argument of the builder with its default."""
        return {name: p.default for name, p in inspect.signature(self.builder).parameters.items()}


def _floats(shape: InputShape, dimensions: int) -> Floats:
    if not isinstance(shape, Floats) or len(shape.shape) != dimensions:
        example = "x".join(("3", "32", "32")[:dimensions])
        raise DepthlrError(f"The input {shape} does not suit this model: write {dimensions} sizes, such as {example}.")
    return shape


def _features(shape: InputShape) -> dict[str, int]:
    if not isinstance(shape, Floats):
        raise DepthlrError(f"The input {shape} does not suit this model: write sizes such as 1x8x8 or 64.")
    return {"inputs": shape.size}


def _channels(dimensions: int) -> Callable[[InputShape], dict[str, int]]:
    return lambda shape: {"inputs": _floats(shape, dimensions).shape[0]}


def _square_image(shape: InputShape) -> dict[str, int]:
    inputs, height, width = _floats(shape, 3).shape
    if height != width:
        raise DepthlrError(f"The input {shape} is not square: this model takes images as high as wide.")
    return {"inputs": inputs, "size": height}


def _text(shape: InputShape) -> dict[str, int]:
    if not isinstance(shape, Ids):
        raise DepthlrError(f"The input {shape} does not suit this model: write ids:SEQUENCE:VOCABULARY.")
    return {"context": shape.sequence, "vocabulary": shape.vocabulary}


def _image_of_size(arguments: Arguments) -> Floats:
    return Floats((arguments["inputs"], arguments["size"], arguments["size"]))


ZOO: dict[str, Entry] = {
    "mlp": Entry(MLP, lambda a: Floats((a["inputs"],)), _features),
    "cnn": Entry(CNN, lambda a: Floats((a["inputs"], 32, 32)), _channels(3)),
    "cnn1d": Entry(CNN1d, lambda a: Floats((a["inputs"], 256)), _channels(2)),
    "resnet": Entry(ResNet, lambda a: Floats((a["inputs"], 32, 32)), _channels(3)),
    "vit": Entry(ViT, _image_of_size, _square_image),
    "beit": Entry(BEiT, _image_of_size, _square_image),
    "cct": Entry(CCT, _image_of_size, _square_image),
    "gpt": Entry(GPT, lambda a: Ids(a["context"], a["vocabulary"]), _text),
}
