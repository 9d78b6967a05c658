"""Cells that fail: by an error, an exit, no memory, a hang or a crash; and workers and nodes that die under them.

A file says whether the fault is still there. The first sweep meets it, the user mends it, and the second sweep runs
with `retry_failed`. No cell that was kept may be trained again, and the table must be that of a sweep without faults.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from depthlr.cluster import RayExecutor
from depthlr.data.sets import DataSet
from depthlr.errors import DepthlrError
from depthlr.study import Models, Progress, Search, Study, read_results, sweep, to_csv
from depthlr.training import Cell, Executor, Limits, Task, Training, Workers
from depthlr.training.executor import Finished
from experiments.faults.scenario import Verdict
from experiments.one_machine import ray_cluster

MODELS, SEARCH = Models("mlp?width=8", "layers", (1, 2)), Search("grid", 1e-2, 1.0, 3, (0, 1))
STUDY = Study("faults", MODELS, Training(steps=2, batch=4), search=SEARCH)
HANG = 15.0  # seconds after which a cell that hangs is given up


def _raises() -> None:
    raise ValueError("no luck")


def _no_memory() -> None:
    raise MemoryError


def _no_gpu_memory() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def _too_large() -> None:
    torch.empty(1 << 50)


def _exits() -> None:
    sys.exit(3)


def _hangs() -> None:
    threading.Event().wait()


def _crashes() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


FAULTS: dict[str, Callable[[], None]] = {
    "raises": _raises,
    "exits": _exits,
    "memory": _no_memory,
    "GPU memory": _no_gpu_memory,
    "too large": _too_large,
    "hangs": _hangs,
    "segmentation fault": _crashes,
    "killed": _is_killed,
}


@dataclass(frozen=True)
class Fault:
    """What happens to which cells while a file exists.

    Args:
        how: A key of FAULTS, "nan", or "sleeps", which is none.
        flag: The file.
        seeds: Of the cells that it happens to.
        once: The first cell that meets it removes the file.
    """

    how: str
    flag: Path
    seeds: tuple[int, ...] = (1,)
    once: bool = False

    def strike(self, model: nn.Module, size: int, seed: int) -> None:
        """Initialize a model; this is where the fault strikes."""
        with torch.no_grad():
            for number, parameter in enumerate(model.parameters()):
                parameter.copy_(
                    torch.linspace(-1, 1, parameter.numel()).view_as(parameter) * (1 + 0.1 * (seed + number))
                )
            if self.how == "sleeps":
                time.sleep(4.0)
            elif size == STUDY.model.sizes[-1] and seed in self.seeds and self.flag.exists():
                if self.once:
                    self.flag.unlink()
                if self.how == "nan":
                    next(model.parameters()).fill_(math.nan)
                else:
                    FAULTS[self.how]()


def task(size: int, fault: Fault) -> Task:
    """A task of a few milliseconds, with a fault in some of its cells."""
    inputs = (torch.arange(32 * 4) * 37 % 251).to(torch.uint8).view(32, 1, 2, 2)
    examples = DataSet.from_tensors("made up", inputs, torch.arange(32) % 2, 2, "made up")
    model = partial(_Strikes, size)
    return Task(model, partial(_initialize, fault=fault), examples, STUDY.training)


class _Strikes(nn.Sequential):
    """A small model that knows its size."""

    def __init__(self, size: int) -> None:
        super().__init__(nn.Flatten(), nn.Linear(4, 2))
        self.size = size


def _initialize(model: nn.Module, seed: int, fault: Fault) -> None:
    assert isinstance(model, _Strikes)
    fault.strike(model, model.size, seed)


class Counted(Workers):
    """Keeps which cells were submitted, and how often one was begun."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.submitted: list[Cell] = []

    def train_together(self, cells: Iterable[Cell]) -> Generator[Finished, None, None]:
        given = list(cells)
        self.submitted += given
        yield from super().train_together(given)


def swept(path: Path, executor: Executor, retry: bool = False, progress: Progress | None = None) -> str:
    """Sweep; the sentence that it ends with, if it ends with one."""
    with closing(executor):
        try:
            sweep(STUDY, executor, path, retry_failed=retry, progress=progress)
        except DepthlrError as error:
            return str(error)
    return ""


def undisturbed(folder: Path, seeds: tuple[int, ...] = (1,), how: str = "raises") -> str:
    """The table of a sweep without a fault."""
    path = folder / "quiet.sqlite"
    swept(path, Workers(partial(task, fault=Fault(how, folder / "no flag", seeds)), 2))
    return to_csv(read_results(path))


def fail(folder: Path, how: str, seeds: tuple[int, ...] = (1,)) -> Verdict:
    """A sweep of which the cells with these seeds, at the larger size, fail; then it is mended and resumed."""
    expected = undisturbed(folder, seeds)
    path, fault = folder / "study.sqlite", Fault(how, folder / "flag", seeds)
    fault.flag.touch()
    limits = Limits(HANG if how == "hangs" else None)
    says = swept(path, Workers(partial(task, fault=fault), 2, limits))
    found = {record.cell: record for record in read_results(path).records}
    failed = {cell for cell, record in found.items() if record.failure}
    wrong = []
    if {cell.seed for cell in failed} != set(seeds) or {cell.size for cell in failed} != {STUDY.model.sizes[-1]}:
        wrong.append(f"{how}: the wrong cells failed")
    fault.flag.unlink()
    again = Counted(partial(task, fault=fault), 2)
    swept(path, again, retry=True)
    if to_csv(read_results(path)) != expected:
        wrong.append(f"{how}: another table")
    reason = says or f"failed: {sorted(failed) and found[min(failed)].failure}"
    twice = len(set(again.submitted) & (set(found) - failed))
    return Verdict(len(failed), reason, twice=twice, wrong=tuple(wrong))


def failing(how: str, seeds: tuple[int, ...] = (1,)) -> Callable[[int, Path], Verdict]:
    """The scenario of a fault. How often it is tried is the number of cells that meet it."""
    return lambda times, folder: fail(folder, how, seeds)


def diverging(times: int, folder: Path) -> Verdict:
    """Losses that are NaN: the cells have diverged, all others are as they were."""
    expected = undisturbed(folder)
    path, fault = folder / "study.sqlite", Fault("nan", folder / "flag")
    fault.flag.touch()
    swept(path, Workers(partial(task, fault=fault), 2))
    records = read_results(path).records
    bad = {record.cell for record in records if record.diverged}
    kept = [line for line in to_csv(read_results(path)).splitlines() if not line.endswith("inf,true")]
    rest = iter(expected.splitlines())
    wrong = () if all(line in rest for line in kept) and len(bad) == 3 else ("other cells changed",)
    return Verdict(len(bad), "diverged", lost=len(expected.splitlines()) - 1 - len(records), wrong=wrong)


def worker_killed(times: int, folder: Path) -> Verdict:
    """A worker is killed in mid-cell, and the cell tried again."""
    expected = undisturbed(folder)
    path, fault = folder / "study.sqlite", Fault("killed", folder / "flag", once=True)
    wrong = []
    for _ in range(times):
        fault.flag.touch()
        swept(path, Workers(partial(task, fault=fault), 2))
        if fault.flag.exists() or to_csv(read_results(path)) != expected:
            wrong.append("another table")
        path.unlink()
    return Verdict(times, "nothing; the cell is tried again", wrong=tuple(wrong))


# -- a node of Ray -----------------------------------------------------------------------------------------------------
class _CountingRay(RayExecutor):
    """Counts how often a training was begun."""

    begun = 0

    def _submit(self, handles: Any) -> Any:
        self.begun += len(handles)
        return super()._submit(handles)


class _Removes(Progress):
    """Kills a node of a cluster after some cells, in the middle of the next one."""

    def __init__(self, cluster: Any, node: Any, after: int) -> None:
        self.cluster, self.node, self.left = cluster, node, after

    def finished(self, *told: Any) -> None:
        self.left -= 1
        if self.left == 0:
            time.sleep(0.5)
            self.cluster.remove_node(self.node, allow_graceful=False)


def ray_node_killed(times: int, folder: Path) -> Verdict:
    """One of two nodes is killed in mid-cell: it trained one cell, and only that one is begun again."""
    sleeps = partial(task, fault=Fault("sleeps", folder / "flag"))
    path = folder / "quiet.sqlite"
    swept(path, Workers(sleeps, 2))
    expected = to_csv(read_results(path))
    wrong, again = [], 0
    for _ in range(times):
        path = folder / "study.sqlite"
        with ray_cluster(2) as (cluster, nodes):
            executor = _CountingRay(sleeps)
            swept(path, executor, progress=_Removes(cluster, nodes[-1], 4))
        again += executor.begun - (expected.count("\n") - 1)
        if to_csv(read_results(path)) != expected:
            wrong.append("another table")
        path.unlink()
    twice = max(0, again - times)  # beyond the one that the node was training
    return Verdict(
        times, f"nothing; cells begun again: {again} (what the node trained)", twice=twice, wrong=tuple(wrong)
    )
