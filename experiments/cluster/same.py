"""One study trained in every way there is, and what its table is then."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from depthlr.cluster import RayExecutor, SlurmExecutor
from depthlr.data import load_digits
from depthlr.data.examples import Examples
from depthlr.data.sets import DataSet
from depthlr.study import (
    Models,
    Search,
    Study,
    ask,
    create_study,
    depths_of,
    read_results,
    sweep,
    task_at,
    tell,
    to_csv,
)
from depthlr.study.record import Judge, make_record
from depthlr.training import Cell, Executor, Task, Training, Workers
from depthlr.training.cell import outcome_or_failure
from depthlr.training.serial import SerialExecutor
from experiments.one_machine import needed, one_node_slurm, ray_cluster

JOBS: dict[str, Any] = {"capacity": 16, "cells_per_job": 8, "poll": 0.1, "timeout_min": 30}


@dataclass(frozen=True)
class Given:
    """A study, its data, and an empty folder."""

    study: Study
    examples: Examples
    folder: Path

    @property
    def make_task(self) -> Callable[[int], Task]:
        return partial(task_at, self.study, examples=self.examples)


def given(folder: Path) -> Given:
    """A small study of an MLP on digits.

    Args:
        folder: Where its files go.
    """
    models = Models("mlp?width=16", "layers", (1, 2))
    search = Search("adaptive", low=1e-3, high=1.0, points=9, seeds=(0, 1))
    return Given(Study("same", models, Training(steps=20, batch=32), search=search), load_digits(), folder)


# -- ways to train it --------------------------------------------------------------------------------------------------
def in_process(of: Given) -> str:
    return _swept(of, SerialExecutor(of.make_task))


def in_workers(of: Given) -> str:
    return _swept(of, Workers(of.make_task, 2))


def on_ray(of: Given) -> str:
    with ray_cluster(2):
        return _swept(of, RayExecutor(of.make_task))


def by_submitit(of: Given) -> str:
    needed("submitit")
    return _swept(of, SlurmExecutor(of.make_task, of.folder / "jobs", cluster="local", **JOBS))


def on_slurm(of: Given) -> str:
    needed("submitit")
    (of.folder / "slurm").mkdir()
    with one_node_slurm(of.folder / "slurm"):
        return _swept(of, SlurmExecutor(of.make_task, of.folder / "jobs", **JOBS))


def by_ask_and_tell(of: Given) -> str:
    """As another scheduler does: cells as JSON, losses as JSON, each line told twice."""
    path = of.folder / "study.sqlite"
    create_study(of.study, path)
    runner = SerialExecutor(of.make_task)
    while asked := ask(path, 3):
        lines = []
        for entries in asked:
            cell = Cell(entries["size"], entries["seed"], entries["rate"])
            record = make_record(cell, outcome_or_failure(partial(runner.run, cell)), Judge("budget"))
            lines.append(json.dumps({**entries, "loss": None if record.diverged else record.loss}))
        tell(path, lines)
        tell(path, lines)
    return to_csv(read_results(path))


WAYS: dict[str, Callable[[Given], str]] = {
    "in this process": in_process,
    "two worker processes": in_workers,
    "two Ray nodes": on_ray,
    "submitit's local executor": by_submitit,
    "a SLURM cluster of one node": on_slurm,
    "`ask` and `tell`": by_ask_and_tell,
}


def _swept(of: Given, executor: Executor) -> str:
    with closing(executor):
        depths = depths_of(of.study)
        sweep(of.study, executor, of.folder / "study.sqlite", examples=of.examples, depths=depths)
    return to_csv(read_results(of.folder / "study.sqlite"))


# -- how much two are better than one ----------------------------------------------------------------------------------
def sleeping_loss(output: Tensor, target: Tensor, seconds: float) -> Tensor:
    """Sleeps, as a training on a device of its own does not load this machine."""
    time.sleep(seconds)
    return nn.functional.cross_entropy(output, target)


def _keep(model: nn.Module, seed: int) -> None:
    """Initialise nothing."""


def sleeping_task(size: int, seconds: float = 1.0, steps: int = 2) -> Task:
    """A task whose cells take so many seconds."""
    inputs = torch.arange(16 * 4, dtype=torch.uint8).view(16, 1, 2, 2)
    examples = DataSet.from_tensors("sleep", inputs, torch.arange(16) % 2, 2, "made up")
    model = partial(nn.Sequential, nn.Flatten(), nn.Linear(4, 2))
    loss = partial(sleeping_loss, seconds=seconds / steps)
    return Task(model, _keep, examples, Training(steps=steps, batch=4), loss_fn=loss)


def seconds_of(executor: Executor, cells: int) -> float:
    """The time of so many cells, once all workers have started."""
    with closing(executor):
        list(executor.train(Cell(1, seed, 0.1) for seed in range(4)))
        start = time.perf_counter()
        list(executor.train(Cell(1, seed, 0.1) for seed in range(cells)))
        return time.perf_counter() - start


def worker_seconds(count: int, cells: int) -> float:
    return seconds_of(Workers(sleeping_task, count), cells)


def ray_seconds(count: int, cells: int) -> float:
    with ray_cluster(count):
        return seconds_of(RayExecutor(sleeping_task), cells)
