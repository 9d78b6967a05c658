"""Made-up landscapes of loss against rate with the features of real ones, and an executor that reads losses off them.

A broad bowl in the log rate, gentle on the left, with a wall on the right that ends in divergence 2 to 7 grid steps
behind the minimum; jitter of 0.1 to 1 % of the loss, which makes the bottom ragged over 3 to 6 steps; optima that move
as size^-0.5 to size^-2, sometimes by a jump, and scatter over seeds by about a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from depthlr.study import Models, Search, Study, Training
from depthlr.training import Cell, InProcess, Outcome

SIZES = (3, 4, 6, 8, 12, 16)


@dataclass(frozen=True, eq=False)
class Landscape:
    """Losses of every cell, (sizes, seeds, points); infinite where training diverges."""

    study: Study
    losses: NDArray[np.float64]

    def loss(self, cell: Cell) -> float:
        model, search = self.study.model, self.study.search
        place = model.sizes.index(cell.size), search.seeds.index(cell.seed), search.rates.index(cell.rate)
        return float(self.losses[place])


class LandscapeExecutor(InProcess):
    """Trains nothing: a cell's two steps average to its loss on the landscape."""

    def __init__(self, landscape: Landscape) -> None:
        super().__init__()
        self.landscape = landscape

    def run(self, cell: Cell) -> Outcome:
        loss = np.float32(self.landscape.loss(cell))
        return Outcome(np.array([loss, loss], dtype=np.float32), 0.25 * cell.size, not np.isfinite(loss))


def study(kind: str = "adaptive", sizes: Sequence[int] = SIZES, points: int = 80, seeds: int = 3) -> Study:
    return Study(
        "landscape",
        Models("mlp?width=8", "layers", tuple(sizes)),
        Training(steps=2),
        search=Search(kind, points=points, seeds=tuple(range(seeds))),
    )


def landscape(seed: int, given: Study | None = None) -> Landscape:
    """One study's landscape."""
    given = given or study()
    search, sizes = given.search, given.model.sizes
    rng = np.random.default_rng(seed)
    jitter, slope, scatter = 10 ** rng.uniform(-3, -2), -rng.uniform(0.5, 2), rng.uniform(0.5, 1.5)
    first = rng.uniform(0.5, 0.85) * search.points
    losses = np.empty((len(sizes), len(search.seeds), search.points))
    for row, size in enumerate(sizes):
        jump = rng.normal() * rng.choice([0.7, 3], p=[0.8, 0.2])
        centre = first + slope * np.log10(size / sizes[0]) / search.spacing + jump
        flat, wall, linear, far = rng.uniform(3, 6), rng.uniform(2, 6), rng.uniform(4, 12), rng.uniform(25, 60)
        for column in range(len(search.seeds)):
            x = np.arange(search.points) - centre - rng.normal() * scatter  # grid steps from this seed's minimum
            bend = jitter / (flat / 2) ** 2  # the bowl rises by the jitter at the ends of its flat bottom
            left = bend * x**2 / (1 + np.abs(x) / linear) + (np.minimum(x, 0) / far) ** 2
            right = bend * x**2 * (1 + 3 * (np.clip(x, 0, 20) / wall) ** 3)
            noise = rng.normal(size=x.size) * jitter * np.where(x > 0, 1.3, 1) * np.clip(1 + x / 20, 0.2, 2)
            curve = rng.uniform(0.8, 1.8) * np.exp(np.minimum(np.where(x < 0, left, right) + noise, 5))
            curve[x > wall + rng.uniform(0, 1.5)] = np.inf
            losses[row, column] = curve
    return Landscape(given, losses)
