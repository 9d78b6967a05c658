"""Time and memory of a sweep per finished cell, apart from its training, at 1,000, 10,000 and 100,000 cells.

    python -m experiments.speed bookkeeping

Nothing is trained: a loss is a formula. `search` is what the search and the estimate take, `sweep` is all that a sweep
does between two cells. The study's file lies in memory where the system offers that (`/dev/shm`): on a disk, each cell
also waits for its commit to be written, which took about 20 ms on a busy disk. Memory is what the search keeps.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np

from depthlr.study import Models, Progress, Search, SearchState, Study, Training, sweep
from depthlr.training import Cell, InProcess, Outcome

SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
LOSSES = 100  # of every cell, as of a run of 100 steps
A_PAIR = 10  # cells that the adaptive search takes for a size and seed, about


def loss_of(cell: Cell) -> float:
    """A bowl whose minimum moves as size^-1."""
    return 1 + (math.log10(cell.rate * cell.size) + 0.01 * (cell.seed % 7)) ** 2


class Formula(InProcess):
    """Trains nothing."""

    def run(self, cell: Cell) -> Outcome:
        return Outcome(np.full(LOSSES, loss_of(cell), np.float32), 1e-3, False)


def study_of(kind: str, cells: int) -> Study:
    """A study that takes about so many cells: a grid of more rates, or an adaptive search with more seeds."""
    rates, seeds = (max(3, cells // len(SIZES) // 10), 10) if kind == "grid" else (80, cells // len(SIZES) // A_PAIR)
    return Study(kind, Models(sizes=SIZES), Training(), search=Search(kind, 1e-4, 10, rates, tuple(range(seeds))))


def search_seconds(study: Study) -> tuple[int, float]:
    """Cells, and seconds per cell, of the search told cell by cell."""
    state = SearchState(study.search, study.model.sizes)
    spent = 0.0
    while wave := state.missing:
        losses = [(cell, loss_of(cell)) for cell in wave]
        before = time.perf_counter()
        for cell, loss in losses:
            state.add(cell, loss, 1e-3)
            state.estimate()
        spent += time.perf_counter() - before
    return len(state), spent / len(state)


def search_bytes(study: Study) -> float:
    """Bytes that the search keeps per cell once all are known."""
    tracemalloc.start()
    state = SearchState(study.search, study.model.sizes)
    while wave := state.missing:
        for cell in wave:
            state.add(cell, loss_of(cell), 1e-3)
    del wave
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept / len(state)


class Clock(Progress):
    """Times the cells of a sweep."""

    def begins(self, *told: object) -> None:
        self.start = time.perf_counter()

    def finished(self, *told: object) -> None:
        self.end = time.perf_counter()


def sweep_seconds(study: Study) -> float:
    """Seconds per cell of a sweep from its first cell to its last."""
    clock = Clock()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        results = sweep(study, Formula(), Path(folder) / "study.sqlite", progress=clock)
    return (clock.end - clock.start) / len(results.records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    options = parser.parse_args()
    print("| search | cells | search, ms a cell | sweep, ms a cell | memory, bytes a cell |")
    print("|---|---|---|---|---|")
    for kind in ("grid", "adaptive"):
        for count in options.cells:
            study = study_of(kind, count)
            cells, seconds = search_seconds(study)
            swept, kept = sweep_seconds(study), search_bytes(study)
            print(f"| {kind} | {cells:,} | {1e3 * seconds:.4f} | {1e3 * swept:.3f} | {kept:.0f} |", flush=True)
