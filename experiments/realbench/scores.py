"""From RealBench's tables to errors: the tuned rate of each size, and how far each rule misses it.

The analysis is fixed before the judged tables are read:

1. A seed's tuned rate is the vertex of a parabola of log loss over log rate, through the rates within half a decade of
   the best one. Where it opens downwards, it is the best rate itself.
2. A size's tuned rate is the mean over seeds of log rate. Its standard error comes from the scatter of seeds, pooled
   over the recipe's sizes. A variant that is trained with one seed takes the scatter of its recipe's seeds.
3. A rule carries the tuned rate of the smallest size to each larger one. Its error is the distance in decades.
4. A recipe's error is the median over its transfers, and a rule's error the median over recipes.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from depthlr.law.rules import DepthRule
from depthlr.transfer.rules import ByDepth, Recipe, Rule
from experiments.realbench.kept import is_finished

WINDOW = 0.5  # decades on each side of the best rate
LEAST = 4  # rates that a parabola needs
RESAMPLES, LEVEL = 10_000, 0.95


@dataclass(frozen=True)
class Curve:
    """Loss against rate at one size and seed, small rates first; runs that diverged are left out."""

    rates: tuple[float, ...]
    losses: tuple[float, ...]

    @property
    def vertex(self) -> float:
        """log10 of the tuned rate."""
        x, y = np.log10(self.rates), np.log(self.losses)
        best = int(y.argmin())
        near = np.abs(x - x[best]) <= WINDOW + 1e-6
        if near.sum() < LEAST:
            return float(x[best])
        curvature, slope, _ = np.polyfit(x[near] - x[best], y[near], 2)
        if curvature <= 0:
            return float(x[best])
        vertex = x[best] - slope / (2 * curvature)
        return float(np.clip(vertex, x[near].min(), x[near].max()))


@dataclass(frozen=True)
class Tuned:
    """A recipe's tuned rates: log10 by size, their common standard error, and the effective depths."""

    name: str
    decades: Mapping[int, float]
    depths: Mapping[int, int]
    standard_error: float
    rising: tuple[int, ...]  # sizes whose validation loss at the best rate rises over the last quarter of training
    seeds: int = 2  # of the size that has the fewest
    edges: tuple[int, ...] = ()  # sizes at which some seed's best rate is the lowest or highest that did not diverge

    @property
    def exponent(self) -> float:
        """The slope of log rate over log effective depth, by least squares."""
        sizes = sorted(self.decades)
        depths = [math.log10(self.depths[size]) for size in sizes]
        return float(np.polyfit(depths, [self.decades[size] for size in sizes], 1)[0])

    @property
    def note(self) -> str:
        """What to know of single sizes, to stand behind the recipe's name; empty if there is nothing."""
        found = {"rises": self.rising, "edge": self.edges}
        words = [f"{word} at {', '.join(map(str, sizes))}" for word, sizes in found.items() if sizes]
        return f" ({'; '.join(words)})" if words else ""

    @property
    def floor(self) -> float:
        """The error that noise alone gives a transfer: both ends are known to one standard error."""
        return math.sqrt(2) * self.standard_error

    def changes(self, rule: Rule) -> dict[int, float]:
        """log10 of the factor by which a rule changes the rate, from the smallest size to each larger one.

        Args:
            rule: A rule that looks at depths alone.
        """
        first, *larger = sorted(self.decades)
        source = Recipe(self.depths[first])
        return {size: math.log10(rule.carry(1.0, source, Recipe(self.depths[size])).factor) for size in larger}

    def errors(self, rule: Rule) -> list[float]:
        """The errors in decades of the rates that a rule carries from the smallest size to each larger one."""
        start = self.decades[min(self.decades)]
        return [abs(start + change - self.decades[size]) for size, change in self.changes(rule).items()]


def power(exponent: float) -> Rule:
    """The rule that the rate is this power of effective depth."""
    return ByDepth(DepthRule("power", "RealBench", "The rate is a power of effective depth.", exponent, exponent))


def read_tuned(path: Path, metric: str = "validation", *, further: bool = True) -> Tuned:
    """A recipe's tuned rates, judged by one column of its table and of the tables of further seeds beside it."""
    rows = []
    for part in (path, *(further_seeds(path) if further else ())):
        with open(part, newline="") as file:
            rows += [row for row in csv.DictReader(file) if row[metric]]
    curves: dict[tuple[int, int], list[dict[str, str]]] = {}
    for row in rows:
        curves.setdefault((int(row["size"]), int(row["seed"])), []).append(row)
    vertices: dict[int, list[float]] = {}
    rising, edges = set(), set()
    for (size, _), runs in sorted(curves.items()):
        runs.sort(key=lambda row: float(row["rate"]))
        curve = Curve(tuple(float(row["rate"]) for row in runs), tuple(float(row[metric]) for row in runs))
        vertices.setdefault(size, []).append(curve.vertex)
        best = min(runs, key=lambda row: float(row[metric]))
        if float(best["validation"]) > float(best["validation_75"]):
            rising.add(size)
        if best is runs[0] or best is runs[-1]:
            edges.add(size)
    squares = [float(np.var(found, ddof=1)) for found in vertices.values() if len(found) > 1]
    seeds = min(map(len, vertices.values()))
    scatter = math.sqrt(sum(squares) / len(squares)) if squares else _scatter_of_recipe(path, metric)
    depths = {int(row["size"]): int(row["depth"]) for row in rows}
    means = {size: float(np.mean(found)) for size, found in vertices.items()}
    error = scatter / math.sqrt(seeds)
    return Tuned(path.stem, means, depths, error, tuple(sorted(rising)), seeds, tuple(sorted(edges)))


def _scatter_of_recipe(path: Path, metric: str) -> float:
    """One standard deviation of a seed's tuned rate on the recipe of which this table is a variant; nan if unknown."""
    recipe = path.with_name(f"{path.stem.partition('+')[0]}.csv")
    if recipe == path or not recipe.is_file():
        return math.nan
    tuned = read_tuned(recipe, metric, further=False)
    return tuned.standard_error * math.sqrt(tuned.seeds)


def further_seeds(path: Path) -> list[Path]:
    """The finished tables of further seeds beside a recipe's table."""
    found = sorted(path.parent.glob(f"{path.stem}+seeds*.csv"))
    return [part for part in found if part.stem.count("+") == path.stem.count("+") + 1 and is_finished(part)]


def gain(worse: Mapping[str, Sequence[float]], better: Mapping[str, Sequence[float]]) -> tuple[float, float, float]:
    """How much less one rule errs than another: median over recipes, with a bootstrap interval over recipes."""
    differences = np.array([median(worse[name]) - median(better[name]) for name in worse])
    draws = np.random.default_rng(0).integers(len(differences), size=(RESAMPLES, len(differences)))
    medians = np.median(differences[draws], axis=1)
    low, high = np.quantile(medians, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(np.median(differences)), float(low), float(high)
