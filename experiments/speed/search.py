"""What the adaptive search costs and how often it finds the exhaustive grid's optimum: cells a (size, seed), agreement.

python -m experiments.speed search            made-up landscapes, and small MLPs on the digits (minutes)
python -m experiments.speed search 200        so many made-up landscapes, and nothing trained
python -m experiments.speed search results/landscapes/*-held-out.csv    tables of `exhaustive` it was not tuned on
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from depthlr.data import load
from depthlr.study import Models, Search, Study, Training, missing_cells, task_at
from depthlr.study.adaptive import best_index
from depthlr.training.cell import Cell
from depthlr.training.serial import SerialRunner
from experiments.landscape import Landscape, landscape
from experiments.tables import read_table


@dataclass(frozen=True)
class Score:
    """Over (size, seed) pairs."""

    pairs: int
    cells: float  # a pair
    exact: float  # share of pairs whose optimum is the grid's own
    near: float  # or within one grid step of it
    regret: float  # mean excess of the loss at the optimum found

    def __str__(self) -> str:
        return (
            f"{self.pairs} pairs: {self.cells:.2f} cells a pair, the grid's optimum in {self.exact:.1%}, within a step "
            f"in {self.near:.1%}, mean excess loss {self.regret:.3%}"
        )


def score(landscapes: Iterable[Landscape]) -> Score:
    """Run the search on each landscape, and compare with the landscape's own minima."""
    steps, excess, cells = [], [], 0
    for given in landscapes:
        search, sizes = given.study.search, given.study.model.sizes
        known: dict[Cell, float] = {}
        while wave := missing_cells(search, sizes, known):
            known |= {cell: given.loss(cell) for cell in wave}
        cells += len(known)
        for row, size in enumerate(sizes):
            for column, seed in enumerate(search.seeds):
                curve = {search.rates.index(c.rate): v for c, v in known.items() if (c.size, c.seed) == (size, seed)}
                found, true = best_index(curve), int(given.losses[row, column].argmin())
                steps.append(abs(found - true))
                excess.append(curve[found] / given.losses[row, column, true] - 1)
    distance = np.array(steps)
    return Score(
        len(steps),
        cells / len(steps),
        float((distance == 0).mean()),
        float((distance <= 1).mean()),
        float(np.mean(excess)),
    )


def trained(spec: str, optimizer: str, high: float) -> Landscape:
    """A real landscape: every cell of the grid, trained."""
    data = load("digits")
    given = Study(
        spec,
        Models(spec, "layers", (2, 4, 8)),
        Training(optimizer=optimizer, steps=60, batch=64),
        search=Search(low=high / 1e5, high=high, points=80),
    )
    losses = np.full((3, 3, 80), np.inf)
    for row, size in enumerate(given.model.sizes):
        runner = SerialRunner(task_at(given, size, data))
        cells = [Cell(size, seed, rate) for seed in given.search.seeds for rate in given.search.rates]
        for cell, outcome in runner.train(cells):
            if not outcome.diverged:
                losses[row, cell.seed, given.search.rates.index(cell.rate)] = outcome.losses.mean(dtype=np.float64)
        runner.close()
    return Landscape(given, losses)


def tabled(path: str) -> dict[str, Landscape]:
    """The landscapes of a table: model, size, seed, rate, loss."""
    rows = read_table(Path(path), ("model", "size", "seed", "rate", "loss"))
    found = {}
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model]
        sizes, seeds = (sorted({int(row[key]) for row in own}) for key in ("size", "seed"))
        rates = sorted({float(row["rate"]) for row in own})
        losses = np.full((len(sizes), len(seeds), len(rates)), np.nan)
        for row in own:
            place = sizes.index(int(row["size"])), seeds.index(int(row["seed"])), rates.index(float(row["rate"]))
            losses[place] = float(row["loss"])
        assert not np.isnan(losses).any(), f"{path} lacks cells of {model}"
        study = Study(
            model,
            Models("mlp?width=8", "layers", tuple(sizes)),  # nothing is trained: sizes and grid are what counts
            Training(steps=2),
            search=Search(low=rates[0], high=rates[-1], points=len(rates), seeds=tuple(seeds)),
        )
        found[model] = Landscape(study, losses)
    return found


def judge(paths: list[str]) -> None:
    """Agreement on tables, with the binomial interval of the share."""
    from scipy.stats import binomtest

    everything: list[Landscape] = []
    for path in paths:
        for model, given in tabled(path).items():
            print(f"{Path(path).stem}, {model}, sizes {given.study.model.sizes}: {score([given])}")
            everything.append(given)
    total = score(everything)
    low, high = binomtest(round(total.near * total.pairs), total.pairs).proportion_ci()
    print(f"all: {total}\nwithin a step: {total.near:.1%} (95% {low:.1%} to {high:.1%})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", nargs="*", help="a number of made-up landscapes, or tables")
    given = parser.parse_args().given
    if given and given[0].endswith(".csv"):
        judge(given)
        return
    print(f"made up: {score(landscape(seed) for seed in range(int(given[0]) if given else 60))}")
    if given:
        return
    for spec, optimizer, high in (("mlp?width=32", "sgd", 10.0), ("mlp?width=32&activation=tanh", "adam", 1.0)):
        print(f"{spec}, {optimizer}: {score([trained(spec, optimizer, high)])}", flush=True)
