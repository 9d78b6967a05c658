"""What was measured of one size of a task, read back from its tables: all that a rule may look at."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.transferbench.measuring import CHANGES, NUMBERS, TABLES
from benchmarks.transferbench.step import Change, Step
from benchmarks.transferbench.task import Task

from depthlr.law.rules import Family
from depthlr.recipes.table import read_table


@dataclass(frozen=True)
class Suggestion:
    """What a range test suggested, if anything, and the time it took."""

    rate: float | None
    seconds: float


@dataclass(frozen=True)
class Measured:
    """One size: its depth, its steps by moment and its suggestions by range test, a seed after the other."""

    size: int
    depth: int
    plain: int
    residual: int
    width: int
    optimizer: str
    momentum: float
    steps: Mapping[str, tuple[Step, ...]]
    suggestions: Mapping[str, tuple[Suggestion, ...]]

    @property
    def family(self) -> Family:
        """As the rules of the literature tell optimizers apart."""
        return "sgd" if self.optimizer in ("sgd", "momentum") else "adam"


def read_measured(task: Task, folder: Path) -> dict[int, Measured] | None:
    """By size; None where the task has not been measured."""
    files = {kind: folder / f"{task.name}.{kind}.csv" for kind in TABLES}
    if not all(file.is_file() for file in files.values()):
        return None
    tables = {kind: read_table(file, TABLES[kind]) for kind, file in files.items()}
    changes: dict[tuple[str, str, str], list[Change]] = {}  # the readout is the last of each
    for row in tables["units"]:
        change = Change(*(float(row[name]) for name in CHANGES))
        changes.setdefault((row["size"], row["seed"], row["moment"]), []).append(change)
    places: dict[int, dict[str, str]] = {}
    steps: dict[int, dict[str, list[Step]]] = {}
    for row in tables["measures"]:
        size = int(row["size"])
        places[size] = row
        *hidden, readout = changes[row["size"], row["seed"], row["moment"]]
        step = Step(tuple(hidden), readout, *(float(row[name]) for name in NUMBERS))
        steps.setdefault(size, {}).setdefault(row["moment"], []).append(step)
    suggestions: dict[int, dict[str, list[Suggestion]]] = {size: {} for size in steps}
    for row in tables["ranges"]:
        suggestion = Suggestion(float(row["rate"]) if row["rate"] else None, float(row["seconds"]))
        suggestions.setdefault(int(row["size"]), {}).setdefault(row["test"], []).append(suggestion)
    training = task.study.training
    return {
        size: Measured(
            size,
            int(row["depth"]),
            int(row["plain"]),
            int(row["residual"]),
            int(row["width"]),
            training.optimizer,
            training.momentum or 0.0,
            {moment: tuple(found) for moment, found in steps[size].items()},
            {test: tuple(found) for test, found in suggestions[size].items()},
        )
        for size, row in places.items()
    }


def log10(value: float) -> float | None:
    """None of what has no logarithm."""
    return math.log10(value) if value > 0 and math.isfinite(value) else None
