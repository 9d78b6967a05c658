"""What every setting took, and what the plain grid it replaces would have taken."""

from __future__ import annotations

from experiments.pages import markdown_table
from experiments.paper import RECIPES
from experiments.paper.page.kept import Energies, Kept, Sweep
from experiments.paper.page.words import NOTHING, seconds
from experiments.paper.recipe import AnySetting
from experiments.paper.setting import Setting

HEAD = (
    "recipe",
    "setting",
    "protocol",
    "device",
    "precision",
    "cells",
    "at once",
    "seconds",
    "plain grid, sampled",
    "faster",
)


def time_table(kept: Kept) -> str:
    """A row a sweep under the recipe that ran it, and a sum a recipe, energies included."""
    rows: list[list[str]] = []
    told: set[str] = set()
    for name, recipe in RECIPES.items():
        new = [setting for setting in recipe.settings if setting.name not in told]
        told |= {setting.name for setting in new}
        ran = [one for setting in new for one in _ran(setting, kept)]
        sweeps = [one for one in ran if isinstance(one, Sweep)]
        rows += [_row(name, sweep) for sweep in sweeps]
        if len(ran) > 1 or len(sweeps) < len(ran):
            rows.append(_sum(name, ran))
    return markdown_table(HEAD, rows)


def _ran(setting: AnySetting, kept: Kept) -> list[Sweep | Energies]:
    if isinstance(setting, Setting):
        return [*kept.protocols(setting)]
    return [kept.energies[setting.name]] if setting.name in kept.energies else []


def spent(one: Sweep | Energies) -> float:
    return float(one.facts["sweep_seconds"]) + float(one.facts["carried_seconds"] or 0.0)


def _plain(one: Sweep | Energies) -> float | None:
    """What the plain grid would take; a sweep that is not finished replaces nothing yet."""
    found = one.facts["plain_grid_seconds"] if one.facts["complete"] else None
    return None if found is None else float(found)


def _row(recipe: str, one: Sweep) -> list[str]:
    facts, plain = one.facts, _plain(one)
    took = float(facts["sweep_seconds"])  # 0 where the times were lost
    # A plain grid of three epochs gives those of one and two as well, and so in part does our sweep.
    ratio = NOTHING if plain is None or not took or one.setting.longer else f"{plain / took:.0f}x"
    return [
        recipe,
        one.setting.title,
        one.protocol,
        str(facts["device"]),
        str(facts["precision"]),
        str(facts["cells"]),
        str(facts["at_once"]),
        seconds(spent(one)),
        seconds(plain),
        ratio,
    ]


def _sum(recipe: str, ran: list[Sweep | Energies]) -> list[str]:
    # A scan replaces no grid, and the grid of a longer sweep holds that of a shorter one.
    sweeps = [one for one in ran if isinstance(one, Sweep)]
    plain = [_plain(one) for one in sweeps if one.setting.scan is None and one.setting.longer is None]
    known = [value for value in plain if value is not None]
    some = f" ({len(known)} of {len(plain)})" if len(known) < len(plain) else ""
    whole = f"{seconds(sum(known))}{some}" if known else NOTHING
    devices = "; ".join(dict.fromkeys(str(one.facts["device"]) for one in ran))
    return [
        f"**{recipe}**",
        "all of it",
        NOTHING,
        devices,
        *[NOTHING] * 3,
        seconds(sum(map(spent, ran))),
        whole,
        NOTHING,
    ]
