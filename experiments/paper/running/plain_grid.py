"""What the plain loop over the whole grid would take on this device: timed on a few steps, not run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from depthlr.data.examples import Examples
from depthlr.study.description import Study
from depthlr.study.tasks import task_at
from depthlr.training.cell import Cell
from depthlr.training.task import Task
from experiments.plain_loop import train_plainly

FEW, MORE = 5, 25  # steps of the two runs whose difference is a step's time
REPEATS = 3  # of each; the fastest counts, which nothing disturbed


def plain_cell_seconds(study: Study, size: int, examples: Examples, device: str) -> float:
    """One cell of the plain loop: building and initializing it, and its steps. TF32 on a GPU, fp32 elsewhere.

    The data lies on the device already.
    """
    task = task_at(study, size, examples.to(device))
    few, more = min(FEW, task.training.run_steps), min(MORE, task.training.run_steps)
    _seconds(task, study, size, few, device)  # the first run of a process picks algorithms
    short = _seconds(task, study, size, few, device)
    if more == few:
        return short
    step = max(0.0, _seconds(task, study, size, more, device) - short) / (more - few)
    return short + step * (task.training.run_steps - few)


def _seconds(task: Task, study: Study, size: int, steps: int, device: str) -> float:
    precision = "tf32" if torch.device(device).type == "cuda" else "fp32"
    sampled = replace(task, training=replace(task.training, steps=steps, precision=precision))
    cell = Cell(size, study.search.seeds[0], study.search.low)
    return min(train_plainly(sampled, cell, device).seconds for _ in range(REPEATS))


def sampled_sizes(study: Study) -> set[int]:
    """The smallest, the middle and the largest: a cell's time grows linearly in between, as the model's layers do."""
    sizes = study.model.sizes
    return {sizes[0], sizes[len(sizes) // 2], sizes[-1]}


def plain_grid_seconds(study: Study, cell_seconds: dict[int, float]) -> float:
    """Every rate with every seed at every size, from the sizes that were timed."""
    timed = sorted(cell_seconds)
    cells = np.interp(study.model.sizes, timed, [cell_seconds[size] for size in timed])
    return float(cells.sum()) * study.search.points * len(study.search.seeds)
