"""Cells as tasks of a Ray cluster: `sweep(study, RayExecutor(make_task, num_gpus=1), ...)`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from depthlr.cluster.remote import needed, train_cell
from depthlr.training.cell import Cell, Outcome
from depthlr.training.executor import Attempt, JobExecutor, Limits
from depthlr.training.task import MakeTask


class RayExecutor(JobExecutor):
    """Trains each cell as one task of Ray. The task of the cells, with its data, is put into Ray's store once.

    Args:
        make_task: The task of a size; picklable.
        num_cpus: CPUs of a cell.
        num_gpus: GPUs of a cell; a fraction shares one GPU between cells.
        capacity: Cells that are under way at once; as many as the cluster has room for unless given.
        limits: The time limit of a cell, and how often it is tried again after its worker or machine was lost.
        address: Of the cluster, as `ray.init` takes it. A connection that is open already is used, and left open.
    """

    def __init__(
        self,
        make_task: MakeTask,
        *,
        num_cpus: float = 1,
        num_gpus: float = 0,
        capacity: int | None = None,
        limits: Limits | None = None,
        address: str | None = None,
    ) -> None:
        self._ray = needed("ray", "ray")
        self._opened = not self._ray.is_initialized()
        if self._opened:
            self._ray.init(address=address, log_to_driver=False)
        room = self._ray.cluster_resources()
        most = [room.get(name, 0) / each for name, each in (("CPU", num_cpus), ("GPU", num_gpus)) if each]
        super().__init__(capacity or max(1, math.floor(min(most, default=1))), limits)
        # Ray would try a lost task again by itself; here the executor counts, as all executors do.
        remote = self._ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=0)
        self._train = remote(_train_from)
        self._task = self._ray.put(make_task)
        self._device, self._threads = "cuda" if num_gpus else "cpu", max(1, int(num_cpus))

    def close(self) -> None:
        if self._opened:
            self._ray.shutdown()

    def _submit(self, attempts: Sequence[Attempt]) -> Iterable[Any]:
        # In a list, Ray hands the reference over as it is: a worker gets the data once a size, not once a cell.
        return [self._train.remote([self._task], attempt.cell, self._device, self._threads) for attempt in attempts]

    def _wait(self, jobs: Sequence[Any], timeout: float | None) -> Sequence[Any]:
        self._ray.wait(list(jobs), num_returns=1, timeout=timeout)
        done: list[Any] = self._ray.wait(list(jobs), num_returns=len(jobs), timeout=0)[0]  # all that are done by now
        return done

    def _outcome(self, job: Any) -> Outcome | str:
        try:
            outcome: Outcome = self._ray.get(job)
            return outcome
        except self._ray.exceptions.RayError as error:
            return f"its worker was lost ({type(error).__name__}: {str(error).splitlines()[0]})"

    def _end(self, jobs: Sequence[Any]) -> None:
        for job in jobs:
            self._ray.cancel(job, force=True)


def _train_from(task: list[Any], cell: Cell, device: str, threads: int) -> Outcome:
    """In a worker of Ray."""
    import ray

    return train_cell(task[0].hex(), lambda: ray.get(task[0]), cell, device, threads)
