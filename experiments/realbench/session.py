"""A call on a machine that is lent for minutes: do what the plan has next, in several processes beside each other.

Every job keeps its runs as they finish, so a call may be cut off at any moment. When the time is up, the processes are
interrupted, which lets them write their tables; those that do not end are killed. The archive is written anew every
minute.
"""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from experiments.realbench.archive import merge, pack
from experiments.realbench.plan import MINUTES, Job, Part, pending

CLOSING = 25.0  # seconds that are kept for the last tables
PATIENCE = 15.0  # seconds that an interrupted process has to write its table
PACKED_EVERY = 60.0
LEAST = 20.0  # seconds that are too few to begin anything
MARGIN = 1.25  # a run is begun if so many times its expected seconds are left
COLUMNS = ("started", "part", "job", "seconds")


@dataclass(frozen=True)
class Folders:
    """Where a call finds and leaves its things.

    Args:
        data: the packed data.
        results: the committed tables.
        work: sweeps, logs, and below `tables` the tables in work.
        archive: the file into which new tables are packed.
    """

    data: Path
    results: Path
    work: Path
    archive: Path

    @property
    def tables(self) -> Path:
        return self.work / "tables"


@dataclass
class Running:
    """A job in a process of its own."""

    part: Part
    job: Job
    process: subprocess.Popen[bytes]
    log: Path
    started: float
    seconds: float = 0.0


def run_next(
    folders: Folders,
    seconds: float,
    at_once: int,
    *,
    parts: Sequence[str] = (),
    device: str | None = None,
    smoke: bool = False,
) -> list[str]:
    """Work on the plan until the time is spent or nothing can begin; the names of jobs that failed.

    Args:
        folders: where things lie.
        seconds: how long the call may take.
        at_once: processes beside each other.
        parts: work on these alone.
        device: as in `do_job`; a GPU if there is one by default.
        smoke: a few steps of everything.
    """
    began = time.monotonic()
    until = began + seconds - min(CLOSING, seconds / 5)
    folders.tables.mkdir(parents=True, exist_ok=True)
    merge(folders.results, folders.tables)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    running: list[Running] = []
    ended: list[Running] = []
    failed: list[str] = []
    packed = began
    while True:
        now = time.monotonic()
        for one in [one for one in running if one.process.poll() is not None]:
            running.remove(one)
            ended.append(one)
            one.seconds = now - one.started
            if one.process.returncode:
                failed.append(one.job.name)
                print(f"{one.job.name} failed: {_last_line(one.log)}", flush=True)
            else:
                state = "finished" if one.job.is_finished(folders.tables) or smoke else "not finished"
                print(f"{now - began:6.0f} s  {one.job.name}: {state}", flush=True)
        busy = {one.job.table for one in (*running, *ended)}
        if len(running) < at_once and until - now > LEAST * (not smoke):
            for part, job in pending(folders.tables, parts):
                if len(running) >= at_once:
                    break
                if job.table not in busy and (smoke or job.longest(folders.tables) * MARGIN < until - now):
                    running.append(_start(part, job, folders, until - now, device, smoke))
                    busy.add(job.table)
        if not running or now > until:
            break
        if now > packed + PACKED_EVERY:
            pack(folders.tables, folders.results, folders.archive)
            packed = now
        time.sleep(0.2)
    _interrupt(running)
    for one in running:
        one.seconds = time.monotonic() - one.started
        print(f"{time.monotonic() - began:6.0f} s  {one.job.name}: cut off", flush=True)
    _write_minutes(folders.tables / MINUTES, started, [*ended, *running], time.monotonic() - began)
    count = pack(folders.tables, folders.results, folders.archive)
    print(f"{time.monotonic() - began:6.0f} s  {count} tables in {folders.archive}", flush=True)
    return failed


def command_of(job: Job, folders: Folders, left: float, device: str | None, smoke: bool) -> list[str]:
    """What does a job in a process of its own."""
    command = [sys.executable, "-m", "experiments.realbench", "job", job.name, "--data", str(folders.data)]
    command += ["--work", str(folders.work), "--seconds", f"{left:.0f}"]
    command += ["--device", device] if device else []
    return command + (["--smoke"] if smoke else [])


def _start(part: Part, job: Job, folders: Folders, left: float, device: str | None, smoke: bool) -> Running:
    command = command_of(job, folders, left, device, smoke)
    log = folders.work / "logs" / f"{job.name.replace('/', '+')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    # One thread a process: they share the host's cores.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with open(log, "ab") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
    print(f"begun: {job.name}", flush=True)
    return Running(part, job, process, log, time.monotonic())


def _interrupt(running: Sequence[Running]) -> None:
    """End processes, gently first."""
    for one in running:
        one.process.send_signal(signal.SIGINT)
    until = time.monotonic() + PATIENCE
    for one in running:
        try:
            one.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.process.kill()
            one.process.wait()


def _write_minutes(path: Path, started: str, jobs: Sequence[Running], wall: float) -> None:
    """Share the call's time among its jobs, in proportion to how long each ran."""
    total = sum(one.seconds for one in jobs)
    if not total:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.is_file()
    with open(path, "a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(COLUMNS)
        for one in jobs:
            writer.writerow([started, one.part.name, one.job.name, f"{wall * one.seconds / total:.1f}"])


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
