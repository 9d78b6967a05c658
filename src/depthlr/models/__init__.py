"""Models: the zoo, and any model named by text."""

from depthlr.models.activation import ACTIVATIONS, activation_named
from depthlr.models.beit import BEiT
from depthlr.models.build import build
from depthlr.models.cct import CCT
from depthlr.models.cnn import CNN, CNN1d
from depthlr.models.example import Example, parse_input
from depthlr.models.gpt import GPT
from depthlr.models.mlp import MLP
from depthlr.models.resnet import ResNet
from depthlr.models.spec import ModelSpec, parse_spec
from depthlr.models.vit import ViT
from depthlr.models.zoo import ZOO, Entry

__all__ = [
    "ACTIVATIONS",
    "CCT",
    "CNN",
    "GPT",
    "MLP",
    "ZOO",
    "BEiT",
    "CNN1d",
    "Entry",
    "Example",
    "ModelSpec",
    "ResNet",
    "ViT",
    "activation_named",
    "build",
    "parse_input",
    "parse_spec",
]
