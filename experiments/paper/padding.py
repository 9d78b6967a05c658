"""CNN padding on CIFAR-10: circular against zeros (fig:cnn-padding)."""

from __future__ import annotations

from experiments.paper.main import CIFAR10_CNN
from experiments.paper.printed import Printed
from experiments.paper.recipe import Recipe
from experiments.paper.setting import CONVOLUTIONAL, Setting

CNN_ZEROS = Setting(
    name="cnn-zeros",
    title="CNN, zero padding",
    spec="cnn?width=64&padding=zeros",
    vary="layers",
    sizes=CONVOLUTIONAL,
    data="cifar10",
    label="size",
    printed=(Printed("fig:cnn-padding", -1.5, digits=1, about=True),),
)

PADDING = Recipe(
    name="padding",
    title="CNN padding: circular (the baseline) and zeros",
    places=("fig:cnn-padding",),
    settings=(CIFAR10_CNN, CNN_ZEROS),
)
