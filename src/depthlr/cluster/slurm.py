"""Cells as array jobs of SLURM, through submitit: `sweep(study, SlurmExecutor(make_task, "jobs", ...), ...)`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from depthlr.cluster.remote import needed, train_cell
from depthlr.training.cell import Cell, Outcome
from depthlr.training.executor import Handle, JobExecutor, Limits
from depthlr.training.task import MakeTask

POLL = 1.0  # seconds between two looks at the result files


class SlurmExecutor(JobExecutor):
    """Trains cells as jobs, those that wait together as one array job. Their result files are polled.

    Args:
        make_task: The task of a size; picklable. It is written to the folder once, with its data.
        folder: Where jobs, logs and results lie; all machines must see it.
        capacity: Cells that are under way at once.
        limits: The time limit of a cell, its time in the queue included, and how often it is tried again after its job
            was lost. Give the job's own limit as `timeout_min`.
        device: What a job trains on.
        cluster: "slurm"; "local" runs the jobs as processes of this machine.
        poll: Seconds between two looks at the result files.
        options: Of the jobs, as submitit takes them: `timeout_min`, `cpus_per_task`, `gpus_per_node`,
            `slurm_partition` and others.
    """

    def __init__(
        self,
        make_task: MakeTask,
        folder: Path | str,
        *,
        capacity: int = 64,
        limits: Limits | None = None,
        device: str = "cpu",
        cluster: str = "slurm",
        poll: float = POLL,
        **options: Any,
    ) -> None:
        super().__init__(capacity, limits)
        place = Path(folder).resolve()
        place.mkdir(parents=True, exist_ok=True)
        self._submitit = needed("submitit", "slurm").AutoExecutor(folder=place, cluster=cluster)
        self._submitit.update_parameters(name="depthlr", **options)
        self._file = place / "task.pt"
        torch.save(make_task, self._file)
        self._device, self.poll, self._threads = device, poll, int(options.get("cpus_per_task", 1))

    def _submit(self, handles: Sequence[Handle]) -> Iterable[Any]:
        arguments = [(self._file, handle.cell, self._device, self._threads) for handle in handles]
        with self._submitit.batch():
            jobs = [self._submitit.submit(_train_from, *given) for given in arguments]
        return jobs

    def _outcome(self, job: Any) -> Outcome | str:
        error = job.exception()
        if error is not None:
            return f"its worker was lost (job {job.job_id}, {type(error).__name__})"
        outcome: Outcome = job.result()
        return outcome

    def _end(self, job: Any) -> None:
        job.cancel(check=False)


def _train_from(file: Path, cell: Cell, device: str, threads: int) -> Outcome:
    """In the job."""
    return train_cell(str(file), partial(torch.load, file, mmap=True, weights_only=False), cell, device, threads)
