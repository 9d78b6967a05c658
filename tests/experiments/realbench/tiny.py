"""Recipes so small that a sweep takes seconds, and tables as sweeps write them."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from depthlr.study.description import Data, Models, Search, Study
from depthlr.training.training import Training
from experiments.realbench.kept import COLUMNS
from experiments.realbench.recipes import RealRecipe, recipe_named

DEPTHS = {1: 6, 2: 6, 4: 10, 8: 18, 16: 34}
RATES = [10 ** (-5 + step / 8) for step in range(41)]
DAMPED = 3.0  # curvature of the valleys


def tiny_recipe(name: str = "tiny", **training: Any) -> RealRecipe:
    """A ResNet on the digits."""
    options: dict[str, Any] = {"optimizer": "momentum", "steps": 8, "batch": 8} | training
    study = Study(
        name,
        Models("resnet?width=4", "blocks", (1, 2)),
        Training(metric=options.pop("metric", "validation"), evaluate_at=(0.25, 0.5, 0.75), **options),
        Data("digits", validation=32, limit=64),
        Search("adaptive", 1e-3, 1.0, 13, (0, 1)),
    )
    return RealRecipe(name, "design", "resnet", study)


def write_sweep(
    tables: Path,
    name: str,
    decades: Mapping[int, float],
    *,
    depths: Mapping[int, int] = DEPTHS,
    scatter: float = 0.0,
    seeds: tuple[int, ...] = (0, 1),
    early: float = 0.0,
    least: float = 1.0,
    complete: bool = True,
) -> Path:
    """A finished table whose valleys lie at these decades; seeds scatter around them.

    Args:
        tables: the folder.
        name: a recipe or a variant of one.
        decades: log10 of the tuned rate by size.
        depths: by size.
        scatter: decades by which the first seed lies below, and the last above.
        seeds: which ones.
        early: decades by which the training loss has its valley higher.
        least: the loss at the bottom.
        complete: what the facts say.
    """
    recipe = recipe_named(name)
    path = tables / f"{recipe.name}.csv"
    rows = []
    for size, best in decades.items():
        for place, seed in enumerate(seeds):
            shift = scatter * (2 * place / max(1, len(seeds) - 1) - 1) if len(seeds) > 1 else 0.0
            for rate in RATES:
                losses = {
                    column: least * math.exp(DAMPED * (math.log10(rate) - best - shift - more) ** 2)
                    for column, more in (("validation", 0.0), ("train_mean", early))
                }
                rows.append({"size": size, "depth": depths[size], "seed": seed, "rate": repr(rate)} | losses)
                rows[-1] |= {"accuracy": 0.5, "validation_75": losses["validation"] * 1.1, "seconds": "1.00"}
    write_rows(path, rows, COLUMNS)
    write_facts(path, recipe.study.digest, len(rows), complete=complete)
    return path


def write_rows(path: Path, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    """A table of these rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_facts(path: Path, study: str, runs: int, *, complete: bool = True) -> None:
    """What lies beside a table."""
    facts = {"study": study, "complete": complete, "runs": runs, "gpu_seconds": float(runs), "environments": []}
    path.with_suffix(".json").write_text(json.dumps(facts))


def with_seeds(recipe: RealRecipe, *seeds: int) -> RealRecipe:
    """The recipe on these seeds."""
    study = recipe.study
    return replace(recipe, study=replace(study, search=replace(study.search, seeds=seeds)))
