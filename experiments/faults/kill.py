"""Kill a sweep with SIGKILL at random moments, or at every write of its file, and fill the disk at every write.

python -m experiments.faults kill --times 50
python -m experiments.faults writes full

Writes are found by a hook that SQLite has for such tests: its system calls can be replaced (`xSetSystemCall`).
"""

from __future__ import annotations

import _sqlite3
import ctypes
import errno
import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_long, c_size_t, c_ssize_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from depthlr.errors import DepthlrError
from depthlr.study import Estimate, Progress, Record, read_results, read_store, sweep, to_csv
from depthlr.training.cell import Cell
from experiments.faults.scenario import Aftermath, Verdict, forked, wait_for
from experiments.landscape import Landscape, LandscapeExecutor, landscape
from experiments.one_machine import Unavailable

CALLS: dict[str, tuple[Any, ...]] = {  # that change a file: what they return and take
    "write": (c_ssize_t, c_int, c_void_p, c_size_t),
    "pwrite": (c_ssize_t, c_int, c_void_p, c_size_t, c_long),
    "pwrite64": (c_ssize_t, c_int, c_void_p, c_size_t, c_long),
    "ftruncate": (c_int, c_int, c_long),
    "unlink": (c_int, c_char_p),
}
FAULTS = ("killed before it", "killed in the middle of it", "killed after it", "disk full from it on")


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


def kill_at_writes(times: int, folder: Path) -> Verdict:
    """The scenario."""
    return fault_at_writes(times, folder, FAULTS[:3])


def full_at_writes(times: int, folder: Path) -> Verdict:
    """The scenario."""
    return fault_at_writes(times, folder, FAULTS[3:])


def fault_at_writes(times: int, folder: Path, faults: tuple[str, ...]) -> Verdict:
    """Each of the faults at each write, or at so many of them."""
    after = Aftermath(folder)
    path = folder / "study.sqlite"
    writes, _, _ = writes_of(after.given, path, 0, FAULTS[0])
    path.unlink()
    each = max(1, -(-writes * len(faults) // times))
    for at in range(1, writes + 1, each):
        for fault in faults:
            _, reported, says = writes_of(after.given, path, at, fault)
            after.add(path, f"write {at}, {fault}", reported, says)
    return after.verdict()


def writes_of(given: Landscape, path: Path, at: int, fault: str) -> tuple[int, int, str | None]:
    """Sweep in a child. Returns how many writes it came to, the cells that it reported, and the error that it raised.

    Of a child that was killed, the number of writes is not known, and 0.
    """

    def count_writes(writer: int) -> None:
        writes, says = Writes(at, fault), None
        try:
            sweep(given.study, LandscapeExecutor(given), path, progress=Ticker(writer))
        except DepthlrError as error:
            says = str(error).replace(str(path), path.name)
        os.write(writer, f"\n{json.dumps([writes.count, says])}".encode())

    child, reader = forked(count_writes)
    with os.fdopen(reader, "rb") as pipe:
        ticks, _, end = pipe.read().partition(b"\n")
    wait_for(child)
    count, says = json.loads(end) if end else (0, None)
    return count, ticks.count(b"c"), says


class _Vfs(Structure):
    """`sqlite3_vfs` of sqlite3.h."""


_SET = CFUNCTYPE(c_int, POINTER(_Vfs), c_char_p, c_void_p)
_GET = CFUNCTYPE(c_void_p, POINTER(_Vfs), c_char_p)
_Vfs._fields_ = [
    *((name, c_int) for name in ("version", "file_size", "longest_path")),
    *((name, c_void_p) for name in ("next", "name", "data")),
    *((f"call{index}", c_void_p) for index in range(13)),  # xOpen to xCurrentTimeInt64
    ("set_system_call", _SET),
    ("get_system_call", _GET),
]


class Writes:
    """Counts this process's writes by SQLite; one of them, by its number from 1, meets a fault."""

    kept: ClassVar[list[Any]] = []  # functions that SQLite calls, which must not be collected

    def __init__(self, at: int, fault: str) -> None:
        self.count, self.at, self.fault = 0, at, fault
        try:
            library = ctypes.CDLL(_sqlite3.__file__)
            library.sqlite3_vfs_find.restype = POINTER(_Vfs)
            vfs = library.sqlite3_vfs_find(None)
        except (OSError, AttributeError) as error:
            raise Unavailable(f"SQLite's system calls cannot be replaced ({error})") from error
        for name, types in CALLS.items():
            place = vfs.contents.get_system_call(vfs, name.encode())
            if place is not None:
                kind = CFUNCTYPE(*types, use_errno=True)
                call = kind(self._replacement(name, kind(place)))
                self.kept.append(call)
                vfs.contents.set_system_call(vfs, name.encode(), ctypes.cast(call, c_void_p))

    def _replacement(self, name: str, real: Callable[..., int]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            self.count += 1
            if self.count >= self.at and self.fault == FAULTS[3] and "write" in name:
                ctypes.set_errno(errno.ENOSPC)
                return -1
            if self.count != self.at or self.fault == FAULTS[3]:
                return real(*arguments)
            if self.fault == FAULTS[1] and "write" in name:
                file, content, length, *place = arguments
                real(file, content, length // 2, *place)
            if self.fault == FAULTS[2]:
                real(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)
            return -1

        return call
