"""Which executor trains a study: its command, a cluster, or this machine's GPU or cores."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from functools import partial

from depthlr.data.examples import Examples
from depthlr.errors import DepthlrError
from depthlr.study.description import NOTHING_TO_TRAIN, Study
from depthlr.study.sizes import task_at
from depthlr.training.command import KEY, Commands
from depthlr.training.executor import Executor, Limits
from depthlr.training.local import open_executor
from depthlr.training.serial import try_step
from depthlr.training.task import MakeTask

OpenCluster = Callable[[MakeTask, Limits | None, int | None], Executor]
"""Opens the executor of a cluster from the tasks, the limits of a cell, and how many cells train at a time."""


def executor_for(
    study: Study,
    examples: Examples | None,
    held_out: Examples | None = None,
    *,
    workers: int | None = None,
    limits: Limits | None = None,
    open_cluster: OpenCluster | None = None,
) -> AbstractContextManager[Executor]:
    """The executor of a study: its command, a cluster, its models on a GPU, or `workers` processes.

    Args:
        study: The study.
        examples: What is trained on; None for a command.
        held_out: What is evaluated on, if anything.
        workers: Processes, commands or cells at a time.
        limits: Of each cell.
        open_cluster: Opens the executor of a cluster. None trains on this machine.
    """
    training = study.training
    if open_cluster is not None and training.command is not None:
        raise DepthlrError("--on trains cells that depthlr builds: for a command, use depthlr ask and tell.")
    if training.command is not None:
        key, shell = training.key or KEY, bool(training.shell)
        return closing(Commands(training.command, workers, limits, result=training.result, key=key, shell=shell))
    if examples is None:
        raise DepthlrError(NOTHING_TO_TRAIN)
    # Picklable, so that worker processes can call it.
    make_task = partial(task_at, study, examples=examples, held_out=held_out)
    if open_cluster is not None:  # nothing is tried here first: a login node may lack the GPU
        return closing(open_cluster(make_task, limits, workers))
    try_step(make_task(study.model.sizes[0]))
    return open_executor(make_task, workers=workers, limits=limits)
