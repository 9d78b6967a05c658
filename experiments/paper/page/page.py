"""The results page and its pictures: prose from a template, every number from the tables."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib.resources import files
from pathlib import Path

from depthlr.data.files import replace_file
from depthlr.errors import DepthlrError
from experiments.pages import fill, markdown_table
from experiments.paper.page.answer import answer, every_setting, finished, sensitivity
from experiments.paper.page.kept import FINDINGS, Energies, Kept, Sweep, read_kept
from experiments.paper.page.pictures import drawn, pictures
from experiments.paper.page.recipe_tables import (
    REMARK,
    audio_table,
    energy_table,
    gelu_line,
    offsets,
    pathsum_table,
    recipe_table,
)
from experiments.paper.page.words import NOTHING, seconds
from experiments.paper.page.zero_shot_tables import zero_shot_tables
from experiments.paper.recipes import RECIPES, SCANS
from experiments.paper.settings import AnySetting, Recipe, Setting
from experiments.tables import write_text

IMAGES = "images/results"  # beside the page
LANDSCAPES = "The landscapes are of the first seed alone. Their stars may differ from the tuned rates above."
# What a recipe shows besides its slopes; the theory has no sweeps.
BESIDES: dict[str, Callable[[Recipe, Kept], str]] = {
    "zero-shot": lambda recipe, kept: zero_shot_tables(kept),
    "pathsum": lambda recipe, kept: f"{pathsum_table(kept)}\n\n{energy_table(recipe, kept)}",
    "variants": lambda recipe, kept: LANDSCAPES if {scan.name for scan in SCANS.values()} <= set(kept.sweeps) else "",
    "padding": offsets,
    "kernel": offsets,
    "audio": lambda recipe, kept: audio_table(kept),
    "theory": lambda recipe, kept: f"{energy_table(recipe, kept)}\n\n{REMARK}\n\n{gelu_line()}",
}
TIMES = (
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


def write_page(folder: Path, page: Path) -> list[Path]:
    """Everything that the tables of `folder` say, to `page` and to pictures beside it; the files written."""
    kept = read_kept(folder)
    panels = pictures(kept)
    text = results_page(kept, list(panels))
    written = []
    for name, found in panels.items():
        place = page.parent / IMAGES / f"{name}.png"
        try:
            with replace_file(place) as file:
                file.write(drawn(found))
        except OSError as error:
            raise DepthlrError(f"{place} cannot be written ({error}): name a page you can write to.") from error
        written.append(place)
    write_text(page, text)
    return [*written, page]


def results_page(kept: Kept, pictures: Collection[str]) -> str:
    """Markdown; `pictures` are the names of those drawn beside it."""
    parts = {
        "answer": answer(kept),
        "settings": every_setting(kept),
        "sensitivity": sensitivity(finished(kept)),
        "recipes": "\n\n".join(_section(recipe, kept, pictures) for recipe in RECIPES.values()),
        "times": time_table(kept),
        "provenance": provenance_table(kept),
    }
    parts |= {name: kept.findings.get(name, "") for name in FINDINGS}
    return fill(files("experiments.paper.page").joinpath("results.md").read_text("utf-8"), parts)


def _section(recipe: Recipe, kept: Kept, pictures: Collection[str]) -> str:
    parts = [f"### `{recipe.name}`: {recipe.title}"]
    if recipe.name != "theory":
        parts.append(recipe_table(recipe, kept))
    if recipe.name in BESIDES and (beside := BESIDES[recipe.name](recipe, kept)):
        parts.append(beside)
    parts += [f"![{recipe.title}]({IMAGES}/{name}.png)" for name in pictures if name.split(".")[0] == recipe.name]
    return "\n\n".join(parts)


def time_table(kept: Kept) -> str:
    """A row a sweep under the recipe that ran it, and a sum a recipe, energies included."""
    rows: list[list[str]] = []
    told: set[str] = set()
    for name, recipe in RECIPES.items():
        new = [setting for setting in recipe.settings if setting.name not in told]
        told |= {setting.name for setting in new}
        ran = [one for setting in new for one in _ran(setting, kept)]
        sweeps = [one for one in ran if isinstance(one, Sweep)]
        rows += [_time_row(name, sweep) for sweep in sweeps]
        if len(ran) > 1 or len(sweeps) < len(ran):
            rows.append(_time_sum(name, ran))
    return markdown_table(TIMES, rows)


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


def _time_row(recipe: str, one: Sweep) -> list[str]:
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


def _time_sum(recipe: str, ran: list[Sweep | Energies]) -> list[str]:
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


def provenance_table(kept: Kept) -> str:
    """Each data set and each set of versions once, then the sweeps that more than one machine trained."""
    facts = [sweep.facts for sweep in kept.sweeps.values()] + [found.facts for found in kept.energies.values()]
    data = dict.fromkeys((f["data"]["name"], f["data"]["examples"], f["data"]["digest"]) for f in facts)
    versions = dict.fromkeys(
        f"{f['device']}: " + ", ".join(f"{name} {number}" for name, number in f["versions"].items()) for f in facts
    )
    moved = [
        f"{sweep.setting.title}, {sweep.protocol}: trained on {', then '.join(map(str, sweep.results.environments))}"
        for sweep in (*kept.sweeps.values(), *kept.lesser)
        if len(sweep.results.environments) > 1
    ]
    rows = [[name, f"{examples:,}", f"`{digest[:16]}…`"] for name, examples, digest in data]
    return (
        markdown_table(("data", "examples", "sha256"), rows)
        + "\n\n"
        + "\n".join(f"- {line}" for line in (*versions, *moved))
    )
