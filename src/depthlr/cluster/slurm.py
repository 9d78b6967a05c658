"""Cells as array jobs of SLURM, through submitit: `sweep(study, SlurmExecutor(make_task, "jobs", ...), ...)`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from depthlr.cluster.remote import Remote, needed, train_cell
from depthlr.training.cell import Cell, Outcome
from depthlr.training.executor import Limits
from depthlr.training.workers import MakeTask

POLL = 1.0  # seconds between two looks at the result files


class SlurmExecutor(Remote):
    """Trains cells as jobs, those that wait together as one array job. Their result files are polled.

    Args:
        make_task: the task of a size; picklable. It is written to the folder once, with its data.
        folder: where jobs, logs and results lie; all machines must see it.
        capacity: cells that are under way at once.
        limits: the time limit of a cell, its time in the queue included, and how often it is tried again after its job
            was lost. Give the job's own limit as `timeout_min`.
        device: what a job trains on.
        cluster: "slurm"; "local" runs the jobs as processes of this machine.
        poll: seconds between two looks at the result files.
        options: of the jobs, as submitit takes them: `timeout_min`, `cpus_per_task`, `gpus_per_node`,
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
        self._jobs = needed("submitit", "slurm").AutoExecutor(folder=place, cluster=cluster)
        self._jobs.update_parameters(name="depthlr", **options)
        self._file = place / "task.pt"
        torch.save(make_task, self._file)
        self._device, self._poll, self._threads = device, poll, int(options.get("cpus_per_task", 1))

    def _submit(self, cells: Sequence[Cell]) -> Iterable[Any]:
        with self._jobs.batch():
            jobs = [self._jobs.submit(_train_from, self._file, cell, self._device, self._threads) for cell in cells]
        return jobs

    def _done(self, futures: Sequence[Any], timeout: float | None) -> Iterable[Any]:
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            done = [job for job in futures if job.done()]
            if done or (until is not None and time.monotonic() >= until):
                return done
            time.sleep(self._poll if until is None else min(self._poll, max(0.0, until - time.monotonic())))

    def _result(self, future: Any) -> Outcome | str:
        error = future.exception()
        if error is not None:
            return f"job {future.job_id}, {type(error).__name__}"
        outcome: Outcome = future.result()
        return outcome

    def _cancel(self, future: Any) -> None:
        future.cancel(check=False)


def _train_from(file: Path, cell: Cell, device: str, threads: int) -> Outcome:
    """In the job."""
    return train_cell(str(file), partial(torch.load, file, mmap=True, weights_only=False), cell, device, threads)
