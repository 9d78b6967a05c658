"""Cells as array jobs of SLURM, through submitit: `sweep(study, SlurmExecutor(make_task, "jobs", ...), ...)`."""

from __future__ import annotations

import pickle
import subprocess
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

from depthlr import check
from depthlr.cluster.remote import needed, train_cell
from depthlr.data.files import replace_file
from depthlr.training.cell import Cell, Outcome
from depthlr.training.executor import Attempt, JobExecutor, Limits
from depthlr.training.task import MakeTask

POLL = 1.0  # seconds between two looks at the result files
LOOK = 30.0  # seconds between two looks at SLURM's queue, for jobs that ended without a result


class SlurmExecutor(JobExecutor):
    """Trains cells in jobs, those that wait together as one array job. Their result files are polled.

    A job that has left the queue without a result is lost: it was preempted, killed, or its node failed. Its cells are
    tried again. `squeue` says so; `sacct` would need accounting, which not every cluster has.

    Args:
        make_task: The task of a size; picklable. It is written to the folder once, with its data.
        folder: Where jobs, logs and results lie; all machines must see it.
        capacity: Cells that are under way at once.
        limits: The time limit of a cell, its time in the queue included, and how often it is tried again after its job
            was lost. Give the job's own limit as `timeout_min`.
        device: What a job trains on.
        cluster: "slurm"; "local" runs the jobs as processes of this machine.
        cells_per_job: Cells that a job trains, one after the other, so that it starts Python once. If one of them is
            given up, the job ends, and the cells after it are tried again.
        poll: Seconds between two looks at the result files.
        look: Seconds between two looks at the queue.
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
        cells_per_job: int = 1,
        poll: float = POLL,
        look: float = LOOK,
        **options: Any,
    ) -> None:
        super().__init__(capacity, limits)
        self._cells_per_job = check.count("cells_per_job", cells_per_job)
        self._place = Path(folder).resolve()
        (self._place / "outcomes").mkdir(parents=True, exist_ok=True)
        self._submitit = needed("submitit", "slurm").AutoExecutor(folder=self._place, cluster=cluster)
        self._submitit.update_parameters(name="depthlr", **options)
        self._file = self._place / "task.pt"
        torch.save(make_task, self._file)
        self._queue = _Queue(look) if cluster == "slurm" else None
        self._device, self.poll, self._threads = device, poll, int(options.get("cpus_per_task", 1))

    def _submit(self, attempts: Sequence[Attempt]) -> Iterable[Any]:
        each, trainings = self._cells_per_job, []
        with self._submitit.batch():
            for start in range(0, len(attempts), each):
                cells = [
                    (attempt.cell, self._place / "outcomes" / f"{uuid4().hex}.pkl")
                    for attempt in attempts[start : start + each]
                ]
                job = self._submitit.submit(_train_from, self._file, cells, self._device, self._threads)
                trainings += [_Training(job, file, self._queue) for _, file in cells]
        return trainings

    def _outcome(self, job: _Training) -> Outcome | str:
        if not job.file.exists():
            return f"its worker was lost (job {job.job.job_id})"
        outcome: Outcome = pickle.loads(job.file.read_bytes())  # written by a job of ours, into a folder of ours
        job.file.unlink()
        return outcome

    def _end(self, jobs: Sequence[_Training]) -> None:
        for training in jobs:
            training.job.cancel(check=False)


class _Training:
    """A cell of a job, and the file that its outcome is written to."""

    def __init__(self, job: Any, file: Path, queue: _Queue | None) -> None:
        self.job, self.file, self._queue = job, file, queue

    def done(self) -> bool:
        """Whether there is an outcome, or the job ended without one."""
        if self.file.exists():
            return True
        return bool(self.job.done()) if self._queue is None else self._queue.lacks(self.job.job_id)


class _Queue:
    """SLURM's queue, asked now and then."""

    def __init__(self, look: float) -> None:
        self._look = look
        self._asked = time.monotonic()
        self._looks: list[set[str] | None] = [None, None]  # the last two; None where SLURM did not answer

    def lacks(self, job: str) -> bool:
        """Whether a job was missing in the last two looks: after one, its result may not be visible here yet."""
        if time.monotonic() - self._asked > self._look:
            found = subprocess.run(["squeue", "--me", "-h", "-r", "-o", "%i"], capture_output=True, text=True)
            jobs = set(found.stdout.split()) if found.returncode == 0 else None
            self._looks = [self._looks[1], jobs]
            self._asked = time.monotonic()
        return all(known is not None and job not in known for known in self._looks)


def _train_from(file: Path, cells: Sequence[tuple[Cell, Path]], device: str, threads: int) -> None:
    """In the job."""
    for cell, place in cells:
        load = partial(torch.load, file, mmap=True, weights_only=False)  # our own file
        outcome = train_cell(str(file), load, cell, device, threads)
        with replace_file(place) as out:
            pickle.dump(outcome, out)
