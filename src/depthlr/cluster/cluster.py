"""Where cells train if not on this machine: the executor of Ray or SLURM, from what a command line says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from depthlr.check import one_of
from depthlr.errors import DepthlrError
from depthlr.training.executor import Executor, Limits
from depthlr.training.task import MakeTask

MOST_JOBS = 64  # that wait or run at once


@dataclass(frozen=True)
class Cluster:
    """Where cells train if not on this machine.

    Args:
        on: ray or slurm.
        address: Of the Ray cluster.
        cpus: Of each cell.
        gpus: Of each cell.
        jobs: The folder of SLURM's jobs.
        options: Of SLURM's jobs, as `key=value`.
    """

    on: str
    address: str | None = None
    cpus: int = 1
    gpus: float = 0
    jobs: Path = Path("jobs")
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        one_of("--on", self.on, ("ray", "slurm"))

    def executor(self, make_task: MakeTask, limits: Limits | None, workers: int | None) -> Executor:
        """Trains cells there; `workers` cells at a time.

        Args:
            make_task: Returns the task of a size. It is picklable.
            limits: What a cell may cost.
            workers: How many cells train at a time.
        """
        if self.on == "ray":
            from depthlr.cluster.ray import RayExecutor

            return RayExecutor(
                make_task,
                num_cpus=self.cpus,
                num_gpus=self.gpus,
                capacity=workers,
                limits=limits,
                address=self.address,
            )
        from depthlr.cluster.slurm import SlurmExecutor

        options: dict[str, Any] = {"cpus_per_task": self.cpus, "gpus_per_node": math.ceil(self.gpus)}
        for option in self.options:
            key, equals, value = option.partition("=")
            if not equals:
                raise DepthlrError(f"--job {option}: write key=value, such as timeout_min=60.")
            options[key] = int(value) if value.isdigit() else value
        device = "cuda" if self.gpus else "cpu"
        kind = options.pop("cluster", "slurm")
        return SlurmExecutor(
            make_task, self.jobs, capacity=workers or MOST_JOBS, limits=limits, device=device, cluster=kind, **options
        )
