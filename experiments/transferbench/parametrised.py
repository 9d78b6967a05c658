"""Models in the peers' parametrisation: residual branches times (blocks / base)^-power in the forward pass.

`power` is 1/2 in Depth-muP and 1 in CompleteP; at `base` blocks the model is the ordinary one, as both have it. Width
does not change in these tasks, so what they prescribe for width is the identity. Initialise with branch_scale = "none".
"""

from __future__ import annotations

from typing import TypeVar

from torch import Tensor, nn

from depthlr.models.convolution import ResidualBlock, ResNet
from depthlr.models.transformer import GPT
from depthlr.models.vit import ViT

Model = TypeVar("Model", ViT, GPT)


class Multiplied(nn.Module):
    """z times a constant."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, z: Tensor) -> Tensor:
        return self.factor * z


def resnet(blocks: int, power: float, base: int = 3, width: int = 64, inputs: int = 3, classes: int = 10) -> ResNet:
    """The ResNet with one convolution a branch."""
    model = ResNet(blocks=blocks, width=width, inputs=inputs, classes=classes)
    for block in model.blocks:
        assert isinstance(block, ResidualBlock)
        block.branch = nn.Sequential(block.branch, Multiplied((blocks / base) ** -power))  # type: ignore[assignment]
    return model


def vit(
    blocks: int,
    power: float,
    base: int = 2,
    width: int = 384,
    heads: int = 6,
    size: int = 32,
    patch: int = 4,
    classes: int = 10,
) -> ViT:
    """The pre-LN ViT."""
    model = ViT(blocks=blocks, width=width, heads=heads, size=size, patch=patch, classes=classes, norm="pre")
    return _multiplied(model, (blocks / base) ** -power)


def gpt(
    blocks: int,
    power: float,
    base: int = 2,
    width: int = 128,
    heads: int = 4,
    vocabulary: int = 65,
    context: int = 128,
) -> GPT:
    """The pre-LN GPT."""
    model = GPT(blocks=blocks, width=width, heads=heads, vocabulary=vocabulary, context=context)
    return _multiplied(model, (blocks / base) ** -power)


def _multiplied(model: Model, factor: float) -> Model:
    """What a branch passes last before it is added is where it would drop."""
    for block in model.blocks:
        block.drop1, block.drop2 = Multiplied(factor), Multiplied(factor)
    return model
