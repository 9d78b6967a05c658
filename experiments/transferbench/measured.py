"""What was measured of one size of a task, read back from its tables: all that a rule may look at."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from depthlr.energy.persistent import PersistentEnergy
from depthlr.law.rules import Family
from experiments.tables import read_table, read_text
from experiments.transferbench.measuring import CHANGES, NUMBERS, PERSISTENT, TABLES, check_own
from experiments.transferbench.step import Change, Step
from experiments.transferbench.sweeping import CELLS
from experiments.transferbench.task import Task


@dataclass(frozen=True)
class Suggestion:
    """What a range test suggested, if anything, and the time it took."""

    rate: float | None
    seconds: float


@dataclass(frozen=True)
class Draw:
    """The persistent energy of one initialization, and the time it took."""

    found: PersistentEnergy
    seconds: float


@dataclass(frozen=True)
class Measured:
    """One size: its depth, and a seed after the other its first steps, persistent energies and range tests."""

    size: int
    depth: int
    plain: int
    residual: int
    width: int
    optimizer: str
    momentum: float
    schedule: str
    steps: tuple[Step, ...]
    persistent: tuple[Draw, ...]
    suggestions: Mapping[str, tuple[Suggestion, ...]]

    @property
    def family(self) -> Family:
        """As the rules of the literature tell optimizers apart."""
        return "sgd" if self.optimizer in ("sgd", "momentum") else "adam"

    @property
    def lacks(self) -> list[str]:
        """What has not been measured yet."""
        parts = {"persistent energy": self.persistent, "range tests": self.suggestions}
        return [name for name, found in parts.items() if not found]


def read_measured(task: Task, folder: Path) -> dict[int, Measured] | None:
    """By size; None where not even first steps have been measured."""
    check_own(task, folder)
    tables = {kind: _read(folder / f"{task.name}.{kind}.csv", columns) for kind, columns in TABLES.items()}
    changes: dict[tuple[str, str], list[Change]] = {}  # the readout is the last of each
    for row in tables["units"]:
        change = Change(*(float(row[name]) for name in CHANGES))
        changes.setdefault((row["size"], row["seed"]), []).append(change)
    places: dict[str, dict[str, str]] = {}
    steps: dict[str, list[Step]] = {}
    for row in tables["measures"]:
        places[row["size"]] = row
        *hidden, readout = changes[row["size"], row["seed"]]
        step = Step(tuple(hidden), readout, *(float(row[name]) for name in NUMBERS))
        steps.setdefault(row["size"], []).append(step)
    persistent: dict[str, list[Draw]] = {}
    for row in tables["persistent"]:
        numbers = {name: float(row[name]) for name in PERSISTENT}
        energy = PersistentEnergy(**numbers, batches=int(row["batches"]))
        draw = Draw(energy, float(row["seconds"]))
        persistent.setdefault(row["size"], []).append(draw)
    suggestions: dict[str, dict[str, list[Suggestion]]] = {}
    for row in tables["ranges"]:
        suggestion = Suggestion(float(row["rate"]) if row["rate"] else None, float(row["seconds"]))
        suggestions.setdefault(row["size"], {}).setdefault(row["test"], []).append(suggestion)
    found = {
        int(size): replace(
            _counted(task, row),
            steps=tuple(steps[size]),
            persistent=tuple(persistent.get(size, ())),
            suggestions={test: tuple(several) for test, several in suggestions.get(size, {}).items()},
        )
        for size, row in places.items()
    }
    return found or None


def read_counted(task: Task, folder: Path) -> dict[int, Measured] | None:
    """By size, with nothing but the depth, from the task's oracle: all that a peer looks at in its twins."""
    file, facts = folder / f"{task.name}.csv", folder / f"{task.name}.json"
    if not (file.is_file() and facts.is_file()):
        return None
    units = json.loads(read_text(facts))["units"]
    return {int(row["size"]): _counted(task, {**row, **units[row["size"]]}) for row in read_table(file, CELLS)}


def _counted(task: Task, row: Mapping[str, str]) -> Measured:
    """With nothing measured yet."""
    size, depth, plain, residual, width = (int(row[name]) for name in ("size", "depth", "plain", "residual", "width"))
    training = task.study.training
    return Measured(
        size, depth, plain, residual, width, training.optimizer, training.momentum or 0.0, training.schedule, (), (), {}
    )


def _read(file: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """No rows of a table that has not been written yet."""
    return read_table(file, columns) if file.is_file() else []


def log10(value: float) -> float | None:
    """None of what has no logarithm."""
    return math.log10(value) if value > 0 and math.isfinite(value) else None
