"""Energies at initialization against depth, no training: the exponent of the rate for mean energy 1, against -3/2.

MLP, CNN, ResNet and transformers up to about 256 units at three widths, digits, SGD; GELU under both variances; the
squared error that the paper derives with beside the cross-entropy that it trains with (App. On the Loss).
"""

from __future__ import annotations

from experiments.paper.energy_setting import EnergySetting
from experiments.paper.recipe import Recipe

LAYERS = (4, 8, 16, 32, 64, 128, 256)
BLOCKS = (2, 4, 8, 16, 32, 64, 128)  # two units each


def _widths(name: str, title: str, spec: str, vary: str, widths: tuple[int, ...]) -> tuple[EnergySetting, ...]:
    sizes = BLOCKS if spec.startswith("vit") else LAYERS
    return tuple(
        EnergySetting(f"energy-{name}-{width}", f"{title}, width {width}", spec.format(width), vary, sizes)
        for width in widths
    )


MLPS = _widths("mlp", "MLP", "mlp?width={}", "layers", (64, 256, 1024))
CNNS = _widths("cnn", "CNN", "cnn?width={}", "layers", (16, 64, 128))
RESNETS = _widths("resnet", "ResNet", "resnet?width={}", "blocks", (16, 64, 128))
POST_LN = _widths("post-ln", "Transformer post-LN", "vit?width={}&heads=4&patch=2&norm=post", "blocks", (32, 64, 128))
PRE_LN = _widths("pre-ln", "Transformer pre-LN", "vit?width={}&heads=4&patch=2&norm=pre", "blocks", (32, 64, 128))
GELU = (
    EnergySetting(
        "energy-mlp-gelu-he",
        "MLP + GELU, He variance",
        "mlp?width=256&activation=gelu",
        "layers",
        LAYERS,
        variance="he",
    ),
    EnergySetting(
        "energy-mlp-gelu", "MLP + GELU, variance by its q", "mlp?width=256&activation=gelu", "layers", LAYERS
    ),
)
SQUARED_ERROR = EnergySetting(
    "energy-mlp-squared-error",
    "MLP, width 256, squared error",
    "mlp?width=256",
    "layers",
    LAYERS,
    loss="experiments.paper.squared_error:squared_error",
)

FAMILIES: dict[str, tuple[EnergySetting, ...]] = {  # a panel each
    "MLP": MLPS,
    "CNN": CNNS,
    "ResNet": RESNETS,
    "Transformer, post-LN": POST_LN,
    "Transformer, pre-LN": PRE_LN,
    "MLP: activation, variance and loss": (MLPS[1], *GELU, SQUARED_ERROR),
}

THEORY = Recipe(
    name="theory",
    title="Theory: energies at initialization, no training",
    places=("prop:cnn-lr",),
    settings=(*MLPS, *CNNS, *RESNETS, *POST_LN, *PRE_LN, *GELU, SQUARED_ERROR),
)
