"""What is known of a task, read back from its tables: oracle rates, the loss at any rate, and what was measured."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from depthlr.energy.persistent import PersistentEnergy
from depthlr.errors import DepthlrError
from depthlr.law.curve import optimum
from depthlr.law.rules import Family
from depthlr.study.description import difference, study_from_dict
from experiments.tables import read_table, read_text
from experiments.transferbench.measuring import CHANGES, NUMBERS, PERSISTENT, TABLES, Change, Step, check_own, read_rows
from experiments.transferbench.sweeping import CELLS
from experiments.transferbench.tasks import Task

FITTED_DECADES = 0.4  # to either side of the least loss
FITTED_EXCESS = 0.05  # of the loss over the least
FEWEST_FITTED = 4


@dataclass(frozen=True)
class Curve:
    """Loss against log10 rate of one size and seed, small rates first."""

    decades: tuple[float, ...]
    losses: tuple[float, ...]
    bounds: tuple[float, float]  # of the search, as rates

    @cached_property
    def best(self) -> float | None:
        """log10 of the best rate; None where every rate diverged or the range cut it off."""
        found = optimum([10**d for d in self.decades], self.losses, bounds=self.bounds)
        return None if found is None or found.at_edge else vertex(self.decades, self.losses, found.index)

    def regret(self, decades: float) -> tuple[float, bool]:
        """Loss at a rate over the least loss, less 1; and whether it is only a lower bound.

        Between two rates the logarithm of the loss is interpolated in the logarithm of the rate; beside a diverged
        run it is infinite. Beyond the rates that were run the last of them stands: the curve rises from there.
        """
        place = bisect_left(self.decades, decades)
        inside = 0 < place < len(self.decades) or (place == 0 and decades == self.decades[0])
        if place == len(self.decades) or place == 0:
            loss = self.losses[min(place, len(self.decades) - 1)]
        else:
            (x0, x1), (y0, y1) = self.decades[place - 1 : place + 1], self.losses[place - 1 : place + 1]
            share = (decades - x0) / (x1 - x0)
            loss = y1 if share == 1 else math.inf if math.inf in (y0, y1) else y0 ** (1 - share) * y1**share
        return loss / min(self.losses) - 1, not inside and loss < math.inf


def vertex(decades: Sequence[float], losses: Sequence[float], least: int) -> float:
    """Of the parabola through the cells around the least loss; the least loss's own rate where they hold none.

    On a noisy curve the minimiser jumps between cells that are nearly as good; the vertex scatters less between seeds.
    """
    near = [
        (x - decades[least], math.log(loss))
        for x, loss in zip(decades, losses, strict=True)
        if abs(x - decades[least]) <= FITTED_DECADES and loss <= (1 + FITTED_EXCESS) * losses[least]
    ]
    if len(near) < FEWEST_FITTED:
        return decades[least]
    x, y = np.array(near).T
    bend, slope, _ = np.polyfit(x, y, 2)
    return decades[least] + float(np.clip(-slope / (2 * bend), x[0], x[-1])) if bend > 0 else decades[least]


@dataclass(frozen=True)
class Oracle:
    """Curves by size and seed."""

    curves: Mapping[int, Mapping[int, Curve]]

    def rate(self, size: int, seeds: Collection[int] | None = None) -> float | None:
        """log10 of the best rate: the mean over the seeds' own; None where a seed has none inside the range."""
        best = [curve.best for seed, curve in self.curves[size].items() if seeds is None or seed in seeds]
        known = [one for one in best if one is not None]
        return fmean(known) if known and len(known) == len(best) else None

    def regret(self, size: int, decades: float, seeds: Collection[int] | None = None) -> tuple[float, bool]:
        """Mean over the seeds of the relative excess loss; a lower bound if one of them is."""
        found = [c.regret(decades) for seed, c in self.curves[size].items() if seeds is None or seed in seeds]
        return fmean(regret for regret, _ in found), any(bound for _, bound in found)


def read_oracle(task: Task, folder: Path) -> Oracle | None:
    """None where the task has not been swept to the end."""
    file, facts = folder / f"{task.name}.csv", folder / f"{task.name}.json"
    content: dict[str, Any] = (
        json.loads(read_text(facts)) if file.is_file() and facts.is_file() else {"complete": False}
    )
    if not content["complete"]:
        return None
    if (swept := task.at(content["precision"])).digest != content["digest"]:
        changes = ", ".join(difference(study_from_dict(content["study"]), swept))
        raise DepthlrError(f"{file} is of another task than {task.name} is now ({changes}): sweep it anew.")
    points: dict[int, dict[int, list[tuple[float, float]]]] = {}
    for row in read_table(file, CELLS):
        curve = points.setdefault(int(row["size"]), {}).setdefault(int(row["seed"]), [])
        curve.append((math.log10(float(row["rate"])), float(row["loss"])))
    search = task.study.search
    bounds = search.low * (1 + 1e-9), search.high * (1 - 1e-9)  # a rate may change its last digit as a logarithm

    def curve_of(places: list[tuple[float, float]]) -> Curve:
        decades, losses = zip(*sorted(places), strict=True)
        return Curve(decades, losses, bounds)

    return Oracle({size: {seed: curve_of(seeds[seed]) for seed in sorted(seeds)} for size, seeds in points.items()})


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
    tables = {kind: read_rows(task, kind, folder) for kind in TABLES}
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


def log10(value: float) -> float | None:
    """None of what has no logarithm."""
    return math.log10(value) if value > 0 and math.isfinite(value) else None
