"""Models whose one argument makes them wider and deeper together."""

from __future__ import annotations

from depthlr.models.convolution import ResNet
from depthlr.models.transformer import GPT


def resnet(scale: int, classes: int = 10) -> ResNet:
    """3 blocks of 16 channels at scale 1, both in proportion to it."""
    return ResNet(blocks=3 * scale, width=16 * scale, classes=classes)


def gpt(scale: int, vocabulary: int = 65, context: int = 128) -> GPT:
    """2 blocks of width 64 at scale 1, both in proportion to it; heads keep their 32 features."""
    return GPT(blocks=2 * scale, width=64 * scale, heads=2 * scale, vocabulary=vocabulary, context=context)
