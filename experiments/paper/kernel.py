"""Kernel sizes 3, 4 and 5 of the CNN on CIFAR-10: "fitted exponents in {-1.74, -1.44, -1.46}" (App. Kernel-Size)."""

from __future__ import annotations

from experiments.paper.main import CIFAR10_CNN
from experiments.paper.printed import Printed
from experiments.paper.recipe import Recipe
from experiments.paper.setting import CONVOLUTIONAL, Setting

CNN_KERNEL_4 = Setting(
    name="cnn-kernel-4",
    title="CNN, kernel 4",
    spec="cnn?width=64&kernel=4",
    vary="layers",
    sizes=CONVOLUTIONAL,
    data="cifar10",
    label="size",
    printed=(Printed("fig:kernel_size_cifar10_relu", -1.44, digits=2),),
)
CNN_KERNEL_5 = Setting(
    name="cnn-kernel-5",
    title="CNN, kernel 5",
    spec="cnn?width=64&kernel=5",
    vary="layers",
    sizes=CONVOLUTIONAL,
    data="cifar10",
    label="size",
    printed=(Printed("fig:kernel_size_cifar10_relu", -1.46, digits=2),),
)

KERNEL = Recipe(
    name="kernel",
    title="CNN kernel sizes 3 (the baseline), 4 and 5",
    places=("fig:kernel_size_cifar10_relu",),
    settings=(CIFAR10_CNN, CNN_KERNEL_4, CNN_KERNEL_5),
)
