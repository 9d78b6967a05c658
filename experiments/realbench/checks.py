"""How often a short check is right: the target at the carried rate, at half and twice of it, in a tenth of the steps.

A check names one of three rates. It is right if the full runs agree. Losses between the swept rates are interpolated
in the logarithm of the rate; a rate outside of those swept counts as worse than any.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from depthlr.study.tune import FACTOR
from depthlr.transfer.rules import Constant
from experiments.realbench.scores import Tuned

OUTSIDE = 0.07  # decades beyond the swept rates, half a step of the grid
Curves = Mapping[tuple[int, int], Sequence[tuple[float, float]]]  # by size and seed: log10 rate and loss


@dataclass(frozen=True)
class ShortCheck:
    """The index of the best of the three rates in the short run and in the full one; 1 is the carried rate."""

    recipe: str
    size: int
    short: int
    full: int


def short_checks(recipes: Sequence[Tuned], results: Path) -> list[ShortCheck]:
    """Every check that the tables allow: recipes with a sweep of 120 steps beside the full one."""
    found = []
    for recipe in recipes:
        compressed = results / f"{recipe.name}+steps120.csv"
        if not compressed.is_file():
            continue
        short, full = _curves(compressed), _curves(results / f"{recipe.name}.csv")
        start = recipe.decades[min(recipe.decades)]
        for size, change in recipe.changes(Constant()).items():
            carried = start + change
            rates = [carried - math.log10(FACTOR), carried, carried + math.log10(FACTOR)]
            best = [int(np.argmin([_loss(curves, size, rate) for rate in rates])) for curves in (short, full)]
            found.append(ShortCheck(recipe.name, size, *best))
    return found


def _curves(path: Path) -> Curves:
    found: dict[tuple[int, int], list[tuple[float, float]]] = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["validation"]:
                point = (math.log10(float(row["rate"])), float(row["validation"]))
                found.setdefault((int(row["size"]), int(row["seed"])), []).append(point)
    return {key: sorted(points) for key, points in found.items()}


def _loss(curves: Curves, size: int, rate: float) -> float:
    """The mean over seeds whose sweep reaches this rate."""
    losses = []
    for (of_size, _), points in curves.items():
        rates = [point[0] for point in points]
        if of_size == size and rates[0] - OUTSIDE <= rate <= rates[-1] + OUTSIDE:
            losses.append(float(np.interp(rate, rates, [point[1] for point in points])))
    return sum(losses) / len(losses) if losses else math.inf
