"""ViT, BEiT and CCT on CIFAR-10: their slopes (fig:plot_vit) and their loss landscapes (fig:vit-loss-landscape)."""

from __future__ import annotations

from dataclasses import replace

from experiments.paper.main import CIFAR10_VIT
from experiments.paper.printed import Printed
from experiments.paper.recipe import Recipe
from experiments.paper.setting import BLOCKS, Setting

BEIT = Setting(
    name="cifar10-beit",
    title="BEiT, CIFAR-10",
    spec="beit?width=384&heads=6&patch=4",
    vary="blocks",
    sizes=BLOCKS,
    data="cifar10",
    label="depth",
    printed=(Printed("fig:plot_vit", -1.35, digits=2),),
    low=1e-5,
    high=1.0,
)
CCT = Setting(
    name="cifar10-cct",
    title="CCT, CIFAR-10",
    spec="cct?width=384&heads=6&tokenizer_layers=2",
    vary="blocks",
    sizes=BLOCKS,
    data="cifar10",
    label="depth",
    printed=(Printed("fig:plot_vit", -1.45, digits=2),),
    low=1e-5,
    high=1.0,
    note="two tokenizer layers leave 64 tokens, as patch 4 does. The paper does not say how many it took",
)

SCANNED = 16  # rates over the whole range: three a decade


def _scan(setting: Setting) -> Setting:
    """What the search leaves out since no optimum lies there."""
    return replace(
        setting,
        name=f"{setting.name}-scan",
        title=f"{setting.title}, whole range",
        printed=(),
        note="",
        scan=SCANNED,
    )


SCANS = {setting.name: _scan(setting) for setting in (CIFAR10_VIT, BEIT, CCT)}  # by the setting's own name

VARIANTS = Recipe(
    name="variants",
    title="ViT variants: ViT, BEiT, CCT and their loss landscapes",
    places=("fig:plot_vit", "fig:vit-loss-landscape"),
    settings=(CIFAR10_VIT, BEIT, CCT, *SCANS.values()),
)
