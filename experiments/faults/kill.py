"""Kill a sweep with SIGKILL at random moments, resume it each time, and compare with one that was left alone.

python -m experiments.faults kill --times 50
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from depthlr.study import Estimate, Progress, Record, read_results, read_store, sweep, to_csv
from depthlr.training.cell import Cell
from experiments.faults.scenario import Verdict, forked, wait_for
from experiments.landscape import Landscape, LandscapeExecutor, landscape


@dataclass(frozen=True)
class Killed:
    """What became of the killed sweep."""

    kills: int  # that hit a sweep at work
    cells: int
    lost: int  # cells that were reported as kept and are not in the file
    sound: bool  # SQLite finds nothing wrong with the file
    identical: bool  # its table has the very bytes of the undisturbed one

    @property
    def passed(self) -> bool:
        return self.sound and self.identical and not self.lost


class Ticker(Progress):
    """Progress that writes a byte whenever a cell is kept."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def begins(self, known: Sequence[Record], damaged: Sequence[Cell], estimate: Estimate) -> None:
        assert not damaged
        os.write(self._pipe, b"b")

    def finished(self, record: Record, estimate: Estimate) -> None:
        os.write(self._pipe, b"c")


def random_kills(times: int, folder: Path) -> Verdict:
    """The scenario."""
    found = kill_and_resume(landscape(0), times, folder, seed=int(time.time()))
    wrong = () if found.passed else (str(found),)
    return Verdict(found.kills, f"nothing; the same command goes on, {found.cells} cells", found.lost, wrong=wrong)


def kill_and_resume(given: Landscape, kills: int, folder: Path, seed: int = 0) -> Killed:
    """Kill `kills` times, then let it finish."""
    rng = random.Random(seed)
    quiet, path = folder / "quiet.sqlite", folder / "killed.sqlite"
    sweep(given.study, LandscapeExecutor(given), quiet)
    expected = to_csv(read_results(quiet))
    cells = expected.count("\n") - 1
    hits, lost = 0, 0
    for _ in range(kills):
        before = len(read_store(path).records) if path.exists() and path.stat().st_size else 0
        # Leave cells for the kills to come, and every so often strike before the first.
        most = max(0, 2 * (cells - before) // max(1, kills - hits))
        ticks = _run_and_kill(given, path, rng.randint(0, most), rng.uniform(0, 0.01))
        hits += ticks is not None
        if ticks:
            kept = len(read_store(path).records)
            lost += max(0, before + ticks - kept)
    sweep(given.study, LandscapeExecutor(given), path)
    with sqlite3.connect(path) as connection:
        sound = connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    return Killed(hits, cells, lost, sound, to_csv(read_results(path)) == expected)


def _run_and_kill(given: Landscape, path: Path, ticks: int, moment: float) -> int | None:
    """Fork a sweep, kill it `moment` seconds after so many cells; the cells it reported, or None if it ended first."""
    child, reader = forked(lambda writer: sweep(given.study, LandscapeExecutor(given), path, progress=Ticker(writer)))
    seen = b""
    while seen.count(b"c") < ticks and (byte := os.read(reader, 1)):
        seen += byte
    deadline = time.perf_counter() + moment
    while time.perf_counter() < deadline:
        pass
    os.kill(child, signal.SIGKILL)
    status = wait_for(child)
    while byte := os.read(reader, 4096):
        seen += byte
    os.close(reader)
    return seen.count(b"c") if os.WIFSIGNALED(status) else None
