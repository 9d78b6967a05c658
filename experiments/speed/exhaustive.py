"""Exhaustive loss landscapes: every rate of the paper's grid, three seeds, depths that span five times, on CIFAR-10.

    python -m experiments.speed exhaustive --folder DIR --out results/landscapes/cifar10   # DIR holds CIFAR-10; one GPU
    python -m experiments.speed exhaustive --digits --steps 60 --batch 64 --out results/landscapes/digits  # two cores

Writes OUT.csv (one row a cell) and OUT.json (times of the captured and of the plain step, lanes). The search is judged
on these tables afterwards, without training anything again.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from depthlr.data import DataSet, load, load_digits
from depthlr.data.examples import Examples
from depthlr.init import ParameterInit, apply_plan, init_plan
from depthlr.law.curve import log_grid
from depthlr.models.build import build
from depthlr.training import Cell, Executor, GraphRunner, Task, Training, Workers
from experiments.plain_loop import train_plainly

POINTS, SEEDS = 80, (0, 1, 2)
PAPER = {  # model, sizes, lowest and highest rate: the paper's widths and ranges
    "cnn": ("cnn?width=64&layers={}", (3, 6, 16), 1e-4, 1e1),
    "resnet": ("resnet?width=64&blocks={}", (3, 6, 16), 1e-4, 1e1),
    "vit": ("vit?width=384&blocks={}", (2, 4, 10), 1e-5, 1e0),
}
SMALL = {
    "cnn": ("cnn?width=12&layers={}", (3, 4, 8, 16), 1e-4, 1e1),
    "resnet": ("resnet?width=12&blocks={}", (3, 4, 8, 16), 1e-4, 1e1),
    "vit": ("vit?width=24&heads=4&patch=2&blocks={}", (2, 4, 6, 10), 1e-5, 1e0),
}


@cache
def plan(spec: str, input: str) -> tuple[ParameterInit, ...]:
    return init_plan(*build(spec, input=input))


def initialize(model: nn.Module, seed: int, spec: str, input: str) -> None:
    apply_plan(model, plan(spec, input), torch.Generator().manual_seed(seed))


def make_task(size: int, pattern: str, examples: Examples, training: Training) -> Task:
    spec = pattern.format(size)
    return Task(
        build=partial(first_of_build, spec, examples.input),
        initialize=partial(initialize, spec=spec, input=examples.input),
        examples=examples,
        training=training,
    )


def first_of_build(spec: str, input: str) -> nn.Module:
    return build(spec, input=input)[0]


def metric(losses: np.ndarray, diverged: bool) -> float:
    return float("inf") if diverged else float(losses.astype(np.float64).mean())


def plain_milliseconds(task: Task, size: int, rate: float, device: str, steps: int) -> float:
    """A step of the plain loop, which everyone writes: data in memory, no graph, no compiler."""
    from dataclasses import replace

    short = replace(task, training=replace(task.training, steps=steps, precision="tf32"))
    train_plainly(short, Cell(size, 0, rate), device)
    start = time.perf_counter()
    train_plainly(short, Cell(size, 0, rate), device)
    return 1e3 * (time.perf_counter() - start) / steps


def examples_from(options: argparse.Namespace) -> Examples:
    """The digits, CIFAR-10 from its publisher's files, or the first of its images from an npz."""
    if options.digits:
        return load_digits()
    if options.npz:
        arrays = np.load(options.npz)
        images, labels = torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["labels"]).long()
        return DataSet.from_tensors("cifar10", images, labels, 10, "CIFAR-10, Krizhevsky 2009")
    return load("cifar10", options.folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder")
    parser.add_argument("--npz", help="images uint8 (N, 3, 32, 32) and labels, instead of a folder")
    parser.add_argument("--digits", action="store_true")
    parser.add_argument("--limit", type=int, default=12_800)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--models", nargs="+", default=list(PAPER))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    examples = examples_from(options)
    cuda = torch.cuda.is_available()
    training = Training(options.steps, options.batch, precision=options.precision if cuda else "fp32")
    out = Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    report: dict[str, object] = {
        "device": torch.cuda.get_device_name() if cuda else "CPU",
        "torch": torch.__version__,
        "data": examples.digest,
        "training": vars(training),
        "sizes": {},
    }
    began = time.perf_counter()
    with open(out.with_suffix(".csv"), "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["model", "size", "seed", "rate", "loss"])
        for name in options.models:
            pattern, sizes, low, high = (SMALL if options.digits else PAPER)[name]
            rates = log_grid(low, high, POINTS)
            maker = partial(make_task, pattern=pattern, examples=examples, training=training)
            workers = None if cuda else Workers(maker, 2)
            for size in sizes:
                start = time.perf_counter()
                task = maker(size)
                runner: Executor = GraphRunner(task) if workers is None else workers
                opened = time.perf_counter() - start
                cells = [Cell(size, seed, rate) for seed in options.seeds for rate in rates]
                start = time.perf_counter()
                found = {cell: metric(o.losses, o.diverged) for cell, o in runner.train(cells)}
                seconds = time.perf_counter() - start
                for cell in cells:
                    table.writerow([name, size, cell.seed, repr(cell.rate), repr(found[cell])])
                file.flush()
                finite = sum(np.isfinite(loss) for loss in found.values())
                entry = {
                    "opened_seconds": opened,
                    "all_cells_seconds": seconds,
                    "finite_cells": int(finite),
                    "milliseconds_a_step": float(1e3 * seconds / (max(1, finite) * options.steps)),
                    "lanes": runner.capacity,
                }
                if cuda:
                    runner.close()
                    entry["plain_milliseconds_a_step"] = plain_milliseconds(task, size, low, "cuda", 50)
                report["sizes"][f"{name} {size}"] = entry  # type: ignore[index]
                out.with_suffix(".json").write_text(json.dumps(report, indent=1))
                print(f"{time.perf_counter() - began:7.1f} s  {name} {size}: {entry}", flush=True)
            if workers is not None:
                workers.close()
