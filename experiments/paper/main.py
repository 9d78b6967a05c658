"""The paper's main table: CNN, ResNet and post-LN ViT on CIFAR-10, CIFAR-100 and an ImageNet subset, SGD, one epoch.

"All models use SGD optimizer without momentum. CNN and ResNet use ReLU activation without normalization or dropout. ViT
uses Post-LN" (tab:main-results). The paper's depth is the number of convolutions, of residual blocks, and the effective
Transformer depth 2D + 2, which its zero-shot table fixes.
"""

from __future__ import annotations

from experiments.paper.printed import Printed
from experiments.paper.recipe import Recipe
from experiments.paper.setting import BLOCKS, CONVOLUTIONAL, Setting

SUBSET_NOTE = "100 classes of Tiny ImageNet, 25,000 images of 64x64. The paper does not say which subset it took"

CIFAR10_CNN = Setting(
    name="cifar10-cnn",
    title="CNN, CIFAR-10",
    spec="cnn?width=64",
    vary="layers",
    sizes=CONVOLUTIONAL,
    data="cifar10",
    label="size",
    printed=(
        Printed("tab:main-results", -1.339),
        Printed("fig:c10-cnn-relu", -1.339),
        Printed("tab:ablation-all", -1.339),
        Printed("fig:cnn-padding", -1.5, digits=1, about=True),
        Printed("fig:kernel_size_cifar10_relu", -1.74, digits=2),  # the same model and data, another slope
    ),
)
CIFAR10_RESNET = Setting(
    name="cifar10-resnet",
    title="ResNet, CIFAR-10",
    spec="resnet?width=64",
    vary="blocks",
    sizes=CONVOLUTIONAL,
    data="cifar10",
    label="size",
    printed=(
        Printed("tab:main-results", -1.435),
        Printed("fig:c10-resnet-amup-vs-pathsum", -1.435),
        Printed("tab:ablation-all", -1.435),
    ),
)
CIFAR10_VIT = Setting(
    name="cifar10-vit",
    title="ViT, CIFAR-10",
    spec="vit?width=384&heads=6&patch=4",
    vary="blocks",
    sizes=BLOCKS,
    data="cifar10",
    label="depth",
    printed=(Printed("tab:main-results", -1.441), Printed("fig:plot_vit", -1.44, digits=2)),
    low=1e-5,
    high=1.0,
)
CIFAR100_CNN = Setting(
    name="cifar100-cnn",
    title="CNN, CIFAR-100",
    spec="cnn?width=64&classes=100",
    vary="layers",
    sizes=CONVOLUTIONAL,
    data="cifar100",
    label="size",
    printed=(Printed("tab:main-results", -1.392),),
)
CIFAR100_RESNET = Setting(
    name="cifar100-resnet",
    title="ResNet, CIFAR-100",
    spec="resnet?width=64&classes=100",
    vary="blocks",
    sizes=CONVOLUTIONAL,
    data="cifar100",
    label="size",
    printed=(Printed("tab:main-results", -1.355),),
)
CIFAR100_VIT = Setting(
    name="cifar100-vit",
    title="ViT, CIFAR-100",
    spec="vit?width=384&heads=6&patch=4&classes=100",
    vary="blocks",
    sizes=BLOCKS,
    data="cifar100",
    label="depth",
    printed=(Printed("tab:main-results", -1.371),),
    low=1e-5,
    high=1.0,
)
IMAGENET_CNN = Setting(
    name="imagenet-cnn",
    title="CNN, ImageNet subset",
    spec="cnn?width=64&classes=100",
    vary="layers",
    sizes=CONVOLUTIONAL,
    data="images?size=64",
    label="size",
    printed=(Printed("tab:main-results", -1.329),),
    note=SUBSET_NOTE,
)
IMAGENET_RESNET = Setting(
    name="imagenet-resnet",
    title="ResNet, ImageNet subset",
    spec="resnet?width=64&classes=100",
    vary="blocks",
    sizes=CONVOLUTIONAL,
    data="images?size=64",
    label="size",
    printed=(Printed("tab:main-results", -1.567),),
    note=SUBSET_NOTE,
)
IMAGENET_VIT = Setting(
    name="imagenet-vit",
    title="ViT, ImageNet subset, patch 16",
    spec="vit?width=768&heads=12&patch=16&classes=100",
    vary="blocks",
    sizes=BLOCKS,
    data="images?size=64",
    label="depth",
    printed=(Printed("tab:main-results", -1.178), Printed("tab:ablation-all", -1.178)),
    low=1e-5,
    high=1.0,
    note=SUBSET_NOTE,
)
IMAGENET_VIT_PATCH_8 = Setting(
    name="imagenet-vit-patch-8",
    title="ViT, ImageNet subset, patch 8",
    spec="vit?width=768&heads=12&patch=8&classes=100",
    vary="blocks",
    sizes=BLOCKS,
    data="images?size=64",
    label="depth",
    printed=(Printed("tab:main-results", -1.178),),
    low=1e-5,
    high=1.0,
    note="patch 16 leaves 16 tokens of a 64x64 image. Patch 8 leaves 64, as CIFAR's patch 4 does",
)

MAIN = Recipe(
    name="main",
    title="Main table: fitted depth exponents of the baselines",
    places=("tab:main-results", "fig:c10-cnn-relu", "fig:plot_vit"),
    settings=(
        CIFAR10_CNN,
        CIFAR10_RESNET,
        CIFAR10_VIT,
        CIFAR100_CNN,
        CIFAR100_RESNET,
        CIFAR100_VIT,
        IMAGENET_CNN,
        IMAGENET_RESNET,
        IMAGENET_VIT,
        IMAGENET_VIT_PATCH_8,
    ),
)
