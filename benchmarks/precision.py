"""Does bf16 find fp32's optimum? fp32 runs of a window of rates around the optimum of the bf16 table.

python -m benchmarks.precision --npz cifar.npz --table results/landscapes/cifar10.csv --json precision.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from benchmarks.exhaustive import PAPER, examples_from, make_task
from benchmarks.search import tabled

from depthlr.training import Cell, GraphRunner, Training

SIZES = {"cnn": 6, "resnet": 6, "vit": 4}
WINDOW = 6  # grid steps to either side


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder")
    parser.add_argument("--npz")
    parser.add_argument("--digits", action="store_true")
    parser.add_argument("--table", default="results/landscapes/cifar10.csv")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--json")
    options = parser.parse_args()
    examples = examples_from(options)
    report = {}
    for name, given in tabled(options.table).items():
        size = SIZES[name]
        rates = given.study.search.rates
        row = given.study.model.sizes.index(size)
        task = make_task(size, PAPER[name][0], examples, Training(options.steps, options.batch, precision="fp32"))
        runner = GraphRunner(task)
        for column, seed in enumerate(given.study.search.seeds):
            half = int(given.losses[row, column].argmin())
            window = range(max(0, half - WINDOW), min(len(rates), half + WINDOW + 1))
            cells = {Cell(size, seed, rates[i]): i for i in window}
            losses = {
                cells[c]: np.inf if o.diverged else o.losses.mean(dtype=float) for c, o in runner.train(list(cells))
            }
            full = min(losses, key=lambda i: losses[i])
            excess = losses[half] / losses[full] - 1
            report[f"{name} {size} {seed}"] = {"bf16": half, "fp32": full, "excess": excess}
            print(
                f"{name} {size}, seed {seed}: {abs(half - full)} grid steps apart, excess loss {excess:.3%}", flush=True
            )
            if options.json:
                Path(options.json).write_text(json.dumps(report, indent=1))
        runner.close()


if __name__ == "__main__":
    main()
