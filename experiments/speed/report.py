"""Rendering the report of a study of 100,000 cells: seconds and megabytes, against 10 s and 5 MB.

python -m experiments.speed report [--points 80] [--seeds 50] [--sizes 25]
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from depthlr.present.report import FORMATS, render_report
from depthlr.study import open_store
from depthlr.study.record import RECORD_COLUMNS, Judge, make_record
from depthlr.training.cell import Cell, Outcome
from experiments.landscape import landscape, study

STEPS = 100  # losses kept of each cell


def write(path: Path, sizes: Sequence[int], seeds: int, points: int) -> int:
    """A finished grid search over a made-up landscape, written in one transaction; returns how many cells."""
    made = landscape(0, study("grid", sizes, points, seeds))
    with open_store(path, made.study, depths={size: size + 2 for size in sizes}):
        pass
    rows = []
    for row, size in enumerate(sizes):
        for column, seed in enumerate(made.study.search.seeds):
            for place, rate in enumerate(made.study.search.rates):
                loss = np.float32(made.losses[row, column, place])
                outcome = Outcome(np.full(STEPS, loss, dtype=np.float32), 0.1, not np.isfinite(loss))
                rows.append(make_record(Cell(size, seed, rate), outcome, Judge("budget")).row())
    connection = sqlite3.connect(path)
    with connection:
        marks = ", ".join("?" * len(RECORD_COLUMNS))
        connection.executemany(f"INSERT INTO cells ({', '.join(RECORD_COLUMNS)}) VALUES ({marks})", rows)
    connection.close()
    return len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, default=25)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--points", type=int, default=80)
    parser.add_argument("--keep", type=Path, help="keep the study and its page in this folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        path = folder / "many.sqlite"
        cells = write(path, range(2, 2 + given.sizes), given.seeds, given.points)
        for form in FORMATS:
            start = time.perf_counter()
            text = render_report(path, form)
            seconds = time.perf_counter() - start
            (folder / f"many.{form}").write_text(text, encoding="utf-8")
            print(f"{cells} cells as {form}: {seconds:.2f} s, {len(text.encode()) / 1e6:.2f} MB")
