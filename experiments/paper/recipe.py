"""A recipe: what reproduces one table or figure of the paper."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.paper.energy_setting import EnergySetting
from experiments.paper.setting import Setting

AnySetting = Setting | EnergySetting


@dataclass(frozen=True)
class Recipe:
    """Settings, run in this order. One that an earlier recipe holds too is run, and kept, there.

    `places` are the paper's labels of what is reproduced: a setting may be printed in several.
    """

    name: str
    title: str
    places: tuple[str, ...]
    settings: tuple[AnySetting, ...]
    source: int | None = None  # the size whose tuned rate is carried to all the others
