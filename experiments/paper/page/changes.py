"""One change at a time: what the paper says it does to the slope, and what it does to ours under one protocol."""

from __future__ import annotations

import math
from dataclasses import dataclass

from depthlr.formatting import MINUS, signed
from depthlr.law.fit import Fit
from experiments.pages import markdown_table
from experiments.paper.ablation import (
    ABLATION,
    CNN_ADAM,
    CNN_GELU,
    CNN_GELU_HE,
    IMAGENET_VIT_PRE_LN,
    RESNET_ADAM,
    RESNET_BATCH_NORM,
    RESNET_DROPOUT,
)
from experiments.paper.kernel import CNN_KERNEL_4, CNN_KERNEL_5, KERNEL
from experiments.paper.main import CIFAR10_CNN, CIFAR10_RESNET, CIFAR10_VIT, IMAGENET_VIT
from experiments.paper.padding import CNN_ZEROS, PADDING
from experiments.paper.page.kept import Kept
from experiments.paper.page.recipe_table import printed_in
from experiments.paper.recipe import Recipe
from experiments.paper.setting import Setting
from experiments.paper.variants import BEIT, CCT, VARIANTS

HEAD = ("change", "the paper says", "its slopes", "ours, over the paper’s depth", "difference", "protocol", "so")
STEEPER, SHALLOWER, UNSURE = "steeper", "shallower", "not told apart"


@dataclass(frozen=True)
class Change:
    """A setting beside the one it departs from, and the paper's sentence in short."""

    recipe: Recipe
    base: Setting
    changed: Setting
    said: str


CHANGES = (
    Change(ABLATION, CIFAR10_CNN, CNN_GELU_HE, "minimal impact"),
    Change(ABLATION, CIFAR10_CNN, CNN_GELU, "minimal impact"),
    Change(ABLATION, CIFAR10_CNN, CNN_ADAM, "10 to 12 % shallower"),
    Change(ABLATION, CIFAR10_RESNET, RESNET_ADAM, "10 to 12 % shallower"),
    Change(ABLATION, CIFAR10_RESNET, RESNET_BATCH_NORM, "steeper"),
    Change(ABLATION, CIFAR10_RESNET, RESNET_DROPOUT, "steeper"),
    Change(ABLATION, IMAGENET_VIT, IMAGENET_VIT_PRE_LN, "minimal effect"),
    Change(VARIANTS, CIFAR10_VIT, BEIT, "all near the law"),
    Change(VARIANTS, CIFAR10_VIT, CCT, "all near the law"),
    Change(PADDING, CIFAR10_CNN, CNN_ZEROS, "a factor only"),
    Change(KERNEL, CIFAR10_CNN, CNN_KERNEL_4, "a factor only"),
    Change(KERNEL, CIFAR10_CNN, CNN_KERNEL_5, "a factor only"),
)


def changes(kept: Kept) -> str:
    """A row a change of which both sides are finished under one protocol; empty where there is none."""
    rows = [row for change in CHANGES if (row := _row(change, kept))]
    return markdown_table(HEAD, rows) if rows else ""


def difference(base: Fit, changed: Fit) -> tuple[float, float]:
    """Of two slopes, with the half width of its interval: errors of separate sweeps add in squares."""
    half = [(fit.interval[1] - fit.interval[0]) / 2 for fit in (base, changed)]
    return changed.slope - base.slope, math.hypot(*half)


def told(apart: float, half: float) -> str:
    """Which way the slope went, if its interval says so."""
    if abs(apart) <= half:
        return UNSURE
    return STEEPER if apart < 0 else SHALLOWER


def _row(change: Change, kept: Kept) -> list[str] | None:
    beside = {sweep.protocol: sweep for sweep in kept.protocols(change.base) if sweep.counts}
    pairs = [(beside[s.protocol], s) for s in kept.protocols(change.changed) if s.counts and s.protocol in beside]
    for base, changed in pairs[:1]:
        first, second = base.fit(change.base.label), changed.fit(change.changed.label)
        if first is not None and second is not None:
            apart, half = difference(first, second)
            return [
                f"{change.base.title} → {change.changed.title}",
                change.said,
                " → ".join(str(printed_in(change.recipe, setting)) for setting in (change.base, change.changed)),
                f"{signed(first.slope)} → {signed(second.slope)}",
                f"{apart:+.2f} ± {half:.2f}".replace("-", MINUS),
                changed.protocol,
                told(apart, half),
            ]
    return None
