"""The results page: prose from a template, every number from the tables."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib.resources import files

from experiments.pages import fill
from experiments.paper import RECIPES
from experiments.paper.page.answer import answer, every_setting, finished
from experiments.paper.page.audio_table import audio_table
from experiments.paper.page.findings import FINDINGS
from experiments.paper.page.kept import Kept
from experiments.paper.page.offsets import offsets
from experiments.paper.page.pathsum_table import pathsum_table
from experiments.paper.page.provenance_table import provenance_table
from experiments.paper.page.recipe_table import recipe_table
from experiments.paper.page.sensitivity import sensitivity
from experiments.paper.page.theory_table import REMARK, energy_table, gelu_line
from experiments.paper.page.time_table import time_table
from experiments.paper.page.zero_shot_tables import zero_shot_tables
from experiments.paper.recipe import Recipe
from experiments.paper.variants import SCANS

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
