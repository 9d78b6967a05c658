"""Does bf16 find fp32's optimum? fp32 runs of a window of rates around the optimum of the bf16 table.

python -m experiments.speed precision --folder DIR --table results/landscapes/cifar10.csv --json precision.json

The control runs fp32 once more, from weights larger by a millionth: how far the optimum moves for no reason at all.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from depthlr.study import task_at
from depthlr.training import Cell, GraphRunner, Task, Training
from experiments.speed.exhaustive import data_arguments, examples_from, study_of
from experiments.speed.search import tabled

SIZES = {"cnn": 6, "resnet": 6, "vit": 4}
WINDOW = 6  # grid steps to either side
NUDGE = 1e-6


def nudged(task: Task) -> Task:
    """The same task from all but the same weights."""

    def initialize(model: nn.Module, seed: int) -> None:
        task.initialize(model, seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 + NUDGE)

    return replace(task, initialize=initialize)


def losses_at(runner: GraphRunner, cells: dict[Cell, int]) -> dict[int, float]:
    return {cells[c]: np.inf if o.diverged else o.losses.mean(dtype=float) for c, o in runner.train(list(cells))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data_arguments(parser)
    parser.add_argument("--table", default="results/landscapes/cifar10.csv")
    parser.add_argument("--json")
    options = parser.parse_args()
    examples = examples_from(options)
    report = {}
    for name, given in tabled(options.table).items():
        size = SIZES[name]
        rates = given.study.search.rates
        row = given.study.model.sizes.index(size)
        training = Training(steps=options.steps, batch=options.batch, precision="fp32")
        task = task_at(study_of(name, training), size, examples)
        runner, control = GraphRunner(task), GraphRunner(nudged(task))
        for column, seed in enumerate(given.study.search.seeds):
            half = int(given.losses[row, column].argmin())
            window = range(max(0, half - WINDOW), min(len(rates), half + WINDOW + 1))
            cells = {Cell(size, seed, rates[i]): i for i in window}
            losses, again = losses_at(runner, cells), losses_at(control, cells)
            full, other = min(losses, key=lambda i: losses[i]), min(again, key=lambda i: again[i])
            excess = losses[half] / losses[full] - 1
            report[f"{name} {size} {seed}"] = {"bf16": half, "fp32": full, "excess": excess, "fp32 nudged": other}
            print(
                f"{name} {size}, seed {seed}: {abs(half - full)} grid steps apart, excess loss {excess:.3%}; "
                f"fp32 from weights {NUDGE:g} larger: {abs(other - full)} steps apart",
                flush=True,
            )
            if options.json:
                Path(options.json).write_text(json.dumps(report, indent=1))
        runner.close()
        control.close()
