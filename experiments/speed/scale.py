"""A sweep of 100,000 cells over 1,000 simulated workers: what the driver spends, its memory, and how busy workers are.

    python -m experiments.speed scale --folder .

Nothing is trained: a cell sleeps in simulated time, and its loss is a formula. All else is real: executor, search and
store, with the study's file in the folder. CPU is that of this process, per cell. Memory is what its resident size
grows by from the first cell to the last. The longest plan is the longest time that the search takes for a wave.
"""

from __future__ import annotations

import argparse
import heapq
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from depthlr.study import Estimate, Progress, Record, SearchState, Study, sweep
from depthlr.training import Cell, Outcome
from depthlr.training.executor import Attempt, JobExecutor
from experiments.speed.bookkeeping import LOSSES, loss_of, study_of

MINUTES = 10.0  # that a cell of size 1 takes in simulated time; others in proportion, times 0.5 to 2
RATE = 1_000  # cells that all workers together finish in a real second, on average


class Sleeping(JobExecutor):
    """Jobs that end in simulated time, which runs while the driver is busy and skips what it would wait for."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.now = 0.0  # simulated seconds
        self.busy_seconds = 0.0  # of all workers together
        self._ends: list[tuple[float, int]] = []  # a heap, with the number of the job
        self._cells: dict[int, Cell] = {}
        self._seconds: dict[int, float] = {}  # of the cells under way
        self._draw = Random(0)
        self._number = 0
        self._clock = time.perf_counter()

    def _submit(self, attempts: Sequence[Attempt]) -> Iterable[int]:
        numbers = []
        for attempt in attempts:
            seconds = 60 * MINUTES * attempt.cell.size * 2 ** self._draw.uniform(-1, 1)
            self.busy_seconds += seconds
            self._number += 1
            self._cells[self._number], self._seconds[self._number] = attempt.cell, seconds
            heapq.heappush(self._ends, (self.now + seconds, self._number))
            numbers.append(self._number)
        return numbers

    def _wait(self, jobs: Sequence[int], timeout: float | None) -> Sequence[int]:
        clock = time.perf_counter()
        mean = sum(self._seconds.values()) / len(self._seconds)  # of the cells under way, in simulated seconds
        self.now = max(self.now + (clock - self._clock) * RATE * mean / self.capacity, self._ends[0][0])
        self._clock = clock
        done = []
        while self._ends and self._ends[0][0] <= self.now:
            done.append(heapq.heappop(self._ends)[1])
            del self._seconds[done[-1]]
        return done

    def _outcome(self, job: int) -> Outcome:
        cell = self._cells.pop(job)
        return Outcome(np.full(LOSSES, loss_of(cell), np.float32), 1e-3, False)

    def _end(self, jobs: Sequence[int]) -> None:
        for job in jobs:
            del self._cells[job]


class Meter(Progress):
    """Time and memory from the first cell to the last, before the results are made."""

    def begins(self, *told: Any) -> None:
        self.start, self.cpu, self.memory = time.perf_counter(), time.process_time(), resident()

    def finished(self, record: Record, estimate: Estimate) -> None:
        if not estimate.most:  # the last one
            self.seconds, self.spent = time.perf_counter() - self.start, time.process_time() - self.cpu
            self.grown = resident() - self.memory


def resident() -> int:
    """The memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def longest_plan(study: Study) -> float:
    """Seconds that the longest planning of a wave takes."""
    start = time.perf_counter()
    state = SearchState(study.search, study.model.sizes)
    longest = time.perf_counter() - start
    while wave := state.missing:
        for cell in wave:
            start = time.perf_counter()
            state.add(cell, loss_of(cell), 1e-3)
            longest = max(longest, time.perf_counter() - start)
    return longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--search", nargs="+", choices=("grid", "adaptive"), default=["grid", "adaptive"])
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--folder", type=Path, help="of the study's file; a temporary folder unless given")
    options = parser.parse_args()
    print(
        "| search | cells | CPU, ms a cell | cells a second | memory, bytes a cell | longest plan, ms | workers busy |"
    )
    print("|---|---|---|---|---|---|---|")
    for kind in options.search:
        for count in options.cells:
            study = study_of(kind, count)
            executor = Sleeping(options.workers)
            meter = Meter()
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                cells = len(sweep(study, executor, Path(folder) / "study.sqlite", progress=meter).records)
            row = (
                kind,
                f"{cells:,}",
                f"{1e3 * meter.spent / cells:.2f}",
                f"{cells / meter.seconds:,.0f}",
                f"{meter.grown / cells:,.0f}",
                f"{1e3 * longest_plan(study):.0f}",
                f"{executor.busy_seconds / (options.workers * executor.now):.0%}",
            )
            print(f"| {' | '.join(row)} |", flush=True)
