"""One step before a sweep begins, so that what cannot be trained is said at once, and leaves no file behind."""

from __future__ import annotations

from dataclasses import replace

from depthlr.training.cell import Cell
from depthlr.training.device import chosen_device
from depthlr.training.serial import SerialRunner
from depthlr.training.task import Task


def try_step(task: Task) -> None:
    """Raise one sentence if the task's first step, on the device that will train it, cannot be taken."""
    once = replace(task, training=replace(task.training.for_steps(1), schedule="constant", warmup=None, cooldown=None))
    list(SerialRunner(once, chosen_device()).train([Cell(0, 0, 0.0)]))
