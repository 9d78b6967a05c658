"""The tuned rates: a sweep of each recipe, kept as one table with a row for every run."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from depthlr.study.description import Study
from depthlr.study.record import Record
from depthlr.study.results import Results, read_results
from depthlr.study.run import Progress, SweepInterrupted, sweep
from depthlr.study.search import Estimate
from depthlr.study.task import depths_of, load_data, task_at
from depthlr.training.cell import Cell
from depthlr.training.engine import open_engine
from experiments.realbench.recipes import RealRecipe

COLUMNS = (
    "size",
    "depth",
    "seed",
    "rate",
    "validation",  # loss on held-out data at the end; empty where the run diverged
    "accuracy",
    "validation_25",  # after a quarter of the steps, and so on
    "validation_50",
    "validation_75",
    "train_first",  # mean training loss of the first tenth of the steps
    "train_mean",  # of all steps
    "train_last",  # of the last tenth
    "seconds",
)


class Stopwatch(Progress):
    """Progress that says how far a sweep came, and ends it when its time is up."""

    def __init__(self, name: str, seconds: float | None) -> None:
        self._name, self._start = name, time.monotonic()
        self._until = None if seconds is None else self._start + seconds

    def begins(self, known: Sequence[Record], damaged: Sequence[Cell], estimate: Estimate) -> None:
        self._say(f"{len(known)} cells known, about {estimate.likely} to come")

    def finished(self, record: Record, estimate: Estimate) -> None:
        self._say(f"size {record.cell.size} seed {record.cell.seed}: about {estimate.likely} to come")
        if self._until is not None and time.monotonic() > self._until:
            raise KeyboardInterrupt

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._start:6.0f} s  {self._name}: {text}", flush=True)


def sweep_recipe(recipe: RealRecipe, data: Path, work: Path, *, seconds: float | None = None) -> bool:
    """Sweep a recipe, or what is left of it, into `work`; True when it is finished.

    Args:
        recipe: what to sweep.
        data: the folder of the packed data.
        work: where the sweep's file lies.
        seconds: stop after so long; the same call goes on.
    """
    study = placed(recipe, data)
    examples, held_out = load_data(study)
    depths = depths_of(study, examples.input)
    work.mkdir(parents=True, exist_ok=True)
    make_task = partial(task_at, study, examples=examples, held_out=held_out)
    watch = Stopwatch(recipe.name, seconds)
    try:
        with open_engine(make_task) as executor:
            sweep(
                study,
                executor,
                work / f"{recipe.name}.sqlite",
                examples=examples,
                held_out=held_out,
                depths=depths,
                progress=watch,
            )
    except SweepInterrupted:
        return False
    return True


def placed(recipe: RealRecipe, data: Path) -> Study:
    """The recipe's study, its data in this folder."""
    return replace(recipe.study, data=replace(recipe.study.data, folder=str(data)))


def write_table(recipe: RealRecipe, work: Path, out: Path) -> None:
    """The sweep's runs as a table, and beside it what ran them."""
    results = read_results(work / f"{recipe.name}.sqlite")
    out.mkdir(parents=True, exist_ok=True)
    with open(out / f"{recipe.name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows(results))
    facts = {
        "study": results.study.digest,
        "complete": results.complete,
        "runs": len(results.records),
        "gpu_seconds": round(sum(record.seconds for record in results.records), 1),
        "environments": [vars(one) for one in results.environments],
    }
    (out / f"{recipe.name}.json").write_text(json.dumps(facts, indent=1) + "\n")


def rows(results: Results) -> list[dict[str, Any]]:
    """One for every run, by size, seed and rate."""
    table = []
    for record in results.records:
        losses = np.frombuffer(record.losses, "<f4").astype(np.float64)
        tenth = max(1, results.study.training.run_steps // 10)
        row: dict[str, Any] = {
            "size": record.cell.size,
            "depth": (results.depths or {}).get(record.cell.size),
            "seed": record.cell.seed,
            "rate": repr(record.cell.rate),
            "seconds": f"{record.seconds:.2f}",
        }
        if not record.diverged:
            evaluations = record.evaluated()
            row |= {
                f"validation_{share}": f"{one.loss:.6f}" for share, one in zip((25, 50, 75), evaluations, strict=False)
            }
            row |= {
                "validation": f"{record.loss:.6f}",
                "accuracy": f"{evaluations[-1].accuracy:.5f}",
                "train_first": f"{losses[:tenth].mean():.6f}",
                "train_mean": f"{losses.mean():.6f}",
                "train_last": f"{losses[-tenth:].mean():.6f}",
            }
        table.append(row)
    return table
