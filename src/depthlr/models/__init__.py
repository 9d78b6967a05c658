"""Layer 1: the models that ship with depthlr, and any other model named by text."""

from depthlr.models.build import build
from depthlr.models.convolution import CNN, CNN1d, ResNet
from depthlr.models.inputs import Example, parse_input
from depthlr.models.mlp import ACTIVATIONS, MLP
from depthlr.models.spec import ModelSpec, parse_spec
from depthlr.models.transformer import GPT
from depthlr.models.vit import CCT, BEiT, ViT
from depthlr.models.zoo import ZOO, ZooEntry

__all__ = [
    "ACTIVATIONS",
    "CCT",
    "CNN",
    "GPT",
    "MLP",
    "ZOO",
    "BEiT",
    "CNN1d",
    "Example",
    "ModelSpec",
    "ResNet",
    "ViT",
    "ZooEntry",
    "build",
    "parse_input",
    "parse_spec",
]
