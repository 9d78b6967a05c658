"""Where cells train if not on this machine: the executor of Ray or SLURM, from what a command line says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from depthlr.check import one_of
from depthlr.cluster.ray import RayExecutor
from depthlr.cluster.slurm import SlurmExecutor
from depthlr.errors import DepthlrError
from depthlr.training.executor import Executor, Limits
from depthlr.training.task import MakeTask

MOST_JOBS = 64  # that wait or run at once


def open_cluster(
    make_task: MakeTask,
    limits: Limits | None,
    workers: int | None,
    *,
    on: str,
    address: str | None = None,
    cpus: int = 1,
    gpus: float = 0,
    jobs: Path = Path("jobs"),
    options: Sequence[str] = (),
) -> Executor:
    """Open the executor of a cluster.

    Args:
        make_task: Returns the task of a size. It is picklable.
        limits: What a cell may cost.
        workers: How many cells train at a time.
        on: ray or slurm.
        address: Of the Ray cluster.
        cpus: Of each cell.
        gpus: Of each cell.
        jobs: The folder of SLURM's jobs.
        options: Of SLURM's jobs, as `key=value`.
    """
    if one_of("--on", on, ("ray", "slurm")) == "ray":
        return RayExecutor(make_task, num_cpus=cpus, num_gpus=gpus, capacity=workers, limits=limits, address=address)
    given: dict[str, Any] = {"cpus_per_task": cpus, "gpus_per_node": math.ceil(gpus)}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            raise DepthlrError(f"--job {option}: write key=value, such as timeout_min=60.")
        given[key] = int(value) if value.isdigit() else value
    device = "cuda" if gpus else "cpu"
    return SlurmExecutor(make_task, jobs, capacity=workers or MOST_JOBS, limits=limits, device=device, **given)
