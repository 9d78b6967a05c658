"""The paper's ablation table: activation, optimizer, normalization and dropout, one change at a time.

"Base configuration uses SGD, ReLU, and no regularization unless otherwise specified" (tab:ablation-all). The paper
gives neither the range of rates for Adam nor the chance of dropping.
"""

from __future__ import annotations

from experiments.paper.main import CIFAR10_CNN, CIFAR10_RESNET, IMAGENET_VIT, SUBSET_NOTE
from experiments.paper.printed import Printed
from experiments.paper.recipe import Recipe
from experiments.paper.setting import BLOCKS, CONVOLUTIONAL, Setting

CNN_GELU_HE = Setting(
    name="cnn-gelu-he",
    title="CNN + GELU, He variance",
    spec="cnn?width=64&activation=gelu",
    vary="layers",
    sizes=CONVOLUTIONAL,
    data="cifar10",
    label="size",
    printed=(Printed("tab:ablation-all", -1.379),),
    variance="he",
    note="the variance is ReLU's, 2 / fan-in",
)
CNN_GELU = Setting(
    name="cnn-gelu",
    title="CNN + GELU, variance by its q",
    spec="cnn?width=64&activation=gelu",
    vary="layers",
    sizes=CONVOLUTIONAL,
    data="cifar10",
    label="size",
    printed=(Printed("tab:ablation-all", -1.379),),
    note="the variance is 1 / (q fan-in) with GELU's q = 0.456",
)
CNN_ADAM = Setting(
    name="cnn-adam",
    title="CNN + Adam",
    spec="cnn?width=64",
    vary="layers",
    sizes=CONVOLUTIONAL,
    data="cifar10",
    label="size",
    printed=(Printed("tab:ablation-all", -1.207),),
    low=1e-5,
    high=1.0,
    optimizer="adam",
)
RESNET_BATCH_NORM = Setting(
    name="resnet-batch-norm",
    title="ResNet + BatchNorm",
    spec="resnet?width=64&batch_norm=true",
    vary="blocks",
    sizes=CONVOLUTIONAL,
    data="cifar10",
    label="size",
    printed=(Printed("tab:ablation-all", -1.701),),
    note="BatchNorm stands right after each branch's convolution. It cancels K^(-1/2) on the weight",
)
RESNET_DROPOUT = Setting(
    name="resnet-dropout",
    title="ResNet + dropout",
    spec="resnet?width=64&dropout=0.1",
    vary="blocks",
    sizes=CONVOLUTIONAL,
    data="cifar10",
    label="size",
    printed=(Printed("tab:ablation-all", -1.568),),
    note="0.1 at the end of each branch. The paper does not say how much, nor where",
)
RESNET_ADAM = Setting(
    name="resnet-adam",
    title="ResNet + Adam",
    spec="resnet?width=64",
    vary="blocks",
    sizes=CONVOLUTIONAL,
    data="cifar10",
    label="size",
    printed=(Printed("tab:ablation-all", -1.269),),
    low=1e-5,
    high=1.0,
    optimizer="adam",
)
IMAGENET_VIT_PRE_LN = Setting(
    name="imagenet-vit-pre-ln",
    title="ViT pre-LN, ImageNet subset, patch 16",
    spec="vit?width=768&heads=12&patch=16&classes=100&norm=pre",
    vary="blocks",
    sizes=BLOCKS,
    data="images?size=64",
    label="depth",
    printed=(Printed("tab:ablation-all", -1.131),),
    low=1e-5,
    high=1.0,
    note=SUBSET_NOTE,
)

ABLATION = Recipe(
    name="ablation",
    title="Ablation table: activation, optimizer, normalization, dropout",
    places=("tab:ablation-all", "fig:ablation-all"),
    settings=(
        CIFAR10_CNN,
        CNN_GELU_HE,
        CNN_GELU,
        CNN_ADAM,
        CIFAR10_RESNET,
        RESNET_BATCH_NORM,
        RESNET_DROPOUT,
        RESNET_ADAM,
        IMAGENET_VIT_PRE_LN,
        IMAGENET_VIT,
    ),
)
