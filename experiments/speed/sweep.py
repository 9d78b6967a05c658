"""Time to the optimum at every depth: an adaptive sweep, all included, against the plain loop over the full grid.

    python -m experiments.speed sweep --folder DIR --steps 390       # the paper's models and budget, one GPU
    python -m experiments.speed sweep --digits --steps 40 --batch 64    # small models on two CPU cores
    python -m experiments.speed sweep --folder DIR --steps 390 --validation 5000    # judged by validation loss

The sweep's time is measured whole: compilation, capture, store. The full grid's is a sample of its cells times their
number; none of them stops early. On a GPU the plain loop uses TF32, the sweep bf16; on a CPU both use fp32, the plain
loop with all threads, the sweep with one process a core.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import torch

from depthlr.data.examples import Examples, split
from depthlr.study import Results, Study, sweep, task_at
from depthlr.training import Cell, GraphRunner, Training, open_executor
from experiments.plain_loop import train_plainly
from experiments.speed.exhaustive import PAPER, POINTS, SEEDS, data_arguments, examples_from, study_of

TIMED_SIZE = {"cnn": 16, "resnet": 16, "vit": 8}  # whose training step is timed alone


def swept(study: Study, examples: Examples, held_out: Examples | None) -> tuple[Results, float]:
    """An adaptive sweep from nothing to its fit, and its seconds."""
    make_task = partial(task_at, study, examples=examples, held_out=held_out)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, open_executor(make_task) as executor:
        file = Path(folder) / "speed.sqlite"
        results = sweep(study, executor, file, examples=examples, held_out=held_out)
    return results, time.perf_counter() - start


def evaluation_share(study: Study, examples: Examples, held_out: Examples) -> float:
    """The share of a cell's time that goes into its evaluation, at the study's largest size.

    Cells with and without evaluation are trained in turn, so that a change of the machine's speed is the same for both.
    """
    cell = Cell(study.model.sizes[-1], 0, study.search.low)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    with ExitStack() as stack:
        executors = {}
        for evaluated in (True, False):
            judged = study if evaluated else replace(study, training=replace(study.training, metric="budget"))
            make_task = partial(task_at, judged, examples=examples, held_out=held_out if evaluated else None)
            executors[evaluated] = stack.enter_context(open_executor(make_task, workers=1))
            list(executors[evaluated].train([cell]))  # builds, compiles and captures
        for _ in range(3):
            for evaluated, executor in executors.items():
                ((_, outcome),) = executor.train([cell])
                seconds[evaluated].append(outcome.seconds)
    return 1 - median(seconds[False]) / median(seconds[True])


def plain_seconds(study: Study, size: int, examples: Examples, held_out: Examples | None) -> float:
    """One cell of the plain loop. It takes as long at every rate, since none of them stops early."""
    device, precision = ("cuda", "tf32") if torch.cuda.is_available() else ("cpu", "fp32")
    task = task_at(study, size, examples)
    task = replace(task, training=replace(task.training, precision=precision, metric="budget"))
    cell = Cell(size, 0, 10 * study.search.low)
    train_plainly(replace(task, training=replace(task.training, steps=2)), cell, device)
    return train_plainly(replace(task, held_out=held_out), cell, device).seconds


def step_milliseconds(name: str, size: int, examples: Examples) -> tuple[float, int]:
    """A training step of a cell with as many cells at once as run best."""
    task = task_at(study_of(name, Training(steps=200, batch=128, precision="bf16")), size, examples)
    runner = GraphRunner(task)
    cells = [Cell(size, 0, 1e-4 * (1 + lane)) for lane in range(runner.capacity)]  # one seed: its draw is not a step's
    list(runner.train(cells[:1]))
    start = time.perf_counter()
    list(runner.train(cells))
    milliseconds = 1e3 * (time.perf_counter() - start) / (len(cells) * 200)
    runner.close()
    return milliseconds, len(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data_arguments(parser)
    parser.add_argument("--models", nargs="+", default=list(PAPER))
    parser.add_argument("--validation", type=int, help="examples held out, on which every cell is evaluated")
    parser.add_argument("--json")
    options = parser.parse_args()
    examples, held_out = examples_from(options), None
    if options.validation:
        examples, held_out = split(examples, options.validation)
    cuda = torch.cuda.is_available()
    report: dict[str, object] = {
        "device": torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "steps": options.steps,
        "batch": options.batch,
    }
    print(f"{report['device']}, torch {torch.__version__}, {options.steps} steps of {options.batch}")
    training = Training(
        steps=options.steps,
        batch=options.batch,
        precision="bf16" if cuda else "fp32",
        metric="validation" if options.validation else "budget",
    )
    for name in options.models:
        study = study_of(name, training, small=options.digits, validation=options.validation)
        sizes = study.model.sizes
        # Before and after the sweep, so that a machine that slows down in between slows down both.
        before = {size: plain_seconds(study, size, examples, held_out) for size in sizes}
        results, seconds = swept(study, examples, held_out)
        after = {size: plain_seconds(study, size, examples, held_out) for size in sizes}
        sample = {size: (before[size] + after[size]) / 2 for size in sizes}
        grids = [sum(times.values()) * POINTS * len(SEEDS) for times in (before, after)]
        grid = sum(grids) / 2
        entry = {
            "sizes": sizes,
            "cells": len(results.records),
            "seconds": seconds,
            "training_seconds": sum(r.seconds for r in results.records),
            "plain_cell_seconds": sample,
            "plain_grid_seconds": grid,
            "ratio": grid / seconds,
            "optima": {f"{c.size} {c.seed}": c.optimum.rate for c in results.curves if c.optimum},
        }
        report[name] = entry
        print(
            f"{name} {sizes}: {entry['cells']} cells in {seconds:.1f} s; plain grid of "
            f"{POINTS * len(SEEDS) * len(sizes)} "
            f"cells {grid:.0f} s (sampled: {grids[0]:.0f} before, {grids[1]:.0f} after); "
            f"{entry['ratio']:.1f} times faster",
            flush=True,
        )
        if held_out is not None:
            entry["evaluation_share"] = evaluation_share(study, examples, held_out)
            print(f"    evaluation takes {entry['evaluation_share']:.1%} of a cell's time at size {sizes[-1]}")
        if cuda and not options.digits:
            size = TIMED_SIZE[name]
            entry["step_milliseconds"], entry["lanes"] = step_milliseconds(name, size, examples)
            print(f"    {entry['step_milliseconds']:.2f} ms a step at size {size}, {entry['lanes']} cells at once")
        if options.json:
            Path(options.json).write_text(json.dumps(report, indent=1))
