"""What the committed tables hold: every setting that was measured, under the fullest protocol there is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median_low as median
from typing import Any, TypeVar

from depthlr.errors import DepthlrError
from depthlr.law.fit import Fit, fit_power_law
from depthlr.recipes.energy_setting import EnergySetting
from depthlr.recipes.place import Place
from depthlr.recipes.protocol import PROTOCOLS
from depthlr.recipes.recipe import AnySetting
from depthlr.recipes.running.carried import COLUMNS as CARRIED
from depthlr.recipes.running.energies import ENERGIES
from depthlr.recipes.running.jobs import chosen, home
from depthlr.recipes.running.sweep import CELLS
from depthlr.recipes.setting import Setting
from depthlr.recipes.table import read_table, read_text
from depthlr.study.record import Record
from depthlr.study.results import Over, Results
from depthlr.study.toml import study_from_dict
from depthlr.training.cell import Cell

FACTS = ("complete", "cells", "device", "precision", "versions", "data", "sweep_seconds", "study")


@dataclass(frozen=True)
class Carried:
    """A rule's rate at a target, trained there with every seed."""

    rule: str
    size: int
    rate: float
    losses: tuple[float, ...]


@dataclass(frozen=True)
class Sweep:
    """A setting's sweep, read back."""

    setting: Setting
    protocol: str
    facts: Mapping[str, Any]
    results: Results
    carried: tuple[Carried, ...] = ()

    @property
    def counts(self) -> bool:
        """Is it evidence? What is unfinished, or a mere smoke, is not."""
        return bool(self.facts["complete"]) and self.protocol != "smoke"

    def fit(self, over: Over) -> Fit | None:
        """None where too few optima lie inside the range."""
        try:
            return self.results.fit(over)
        except DepthlrError:
            return None


@dataclass(frozen=True)
class Energies:
    """A setting's energies at initialisation, read back: mean and readout energies by depth."""

    setting: EnergySetting
    protocol: str
    facts: Mapping[str, Any]
    depths: tuple[int, ...]
    sizes: tuple[int, ...]
    means: tuple[float, ...]
    readouts: tuple[float, ...]

    @property
    def counts(self) -> bool:
        """Is it evidence? What is unfinished, or a mere smoke, is not."""
        return bool(self.facts["complete"]) and self.protocol != "smoke"

    def fit(self, readout: bool = False) -> Fit | None:
        """The line through the rates at which an energy is 1: energy is quadratic in the rate."""
        values = self.readouts if readout else self.means
        try:
            return fit_power_law([self.depths[i] for i in self.moving], [values[i] ** -0.5 for i in self.moving])
        except DepthlrError:
            return None

    @property
    def moving(self) -> tuple[int, ...]:
        """The rows whose energy is not 0, at depths where it is not in most: a vanished signal leaves no rate."""
        alive = [min(pair) > 0 for pair in zip(self.means, self.readouts, strict=True)]
        most = {d for d in set(self.depths) if median(a for a, at in zip(alive, self.depths, strict=True) if at == d)}
        return tuple(row for row, depth in enumerate(self.depths) if alive[row] and depth in most)


@dataclass(frozen=True)
class Kept:
    """All that a folder holds, by setting's name, each under the fullest protocol there is."""

    sweeps: Mapping[str, Sweep]
    energies: Mapping[str, Energies]
    lesser: tuple[Sweep, ...] = ()  # the same settings under less full protocols, for comparisons among equals

    def of(self, setting: AnySetting) -> Sweep | Energies | None:
        return self.sweeps.get(setting.name) or self.energies.get(setting.name)

    def protocols(self, setting: Setting) -> list[Sweep]:
        """A setting's sweeps, the fullest first."""
        first = self.sweeps.get(setting.name)
        return [] if first is None else [first, *(sweep for sweep in self.lesser if sweep.setting is setting)]


Read = TypeVar("Read", Sweep, Energies)


def read_kept(folder: Path) -> Kept:
    """Read a folder's tables; a folder without any is refused."""
    sweeps: dict[str, Sweep] = {}
    energies: dict[str, Energies] = {}
    lesser = []
    for setting in chosen():
        places = [Place(folder, home(setting).name, setting.name, protocol) for protocol in PROTOCOLS]
        found = [place for place in places if place.file("json").is_file()]
        if found and isinstance(setting, EnergySetting):
            energies[setting.name] = _evidence_first([read_energies(setting, place) for place in found])[0]
        elif found and isinstance(setting, Setting):
            sweeps[setting.name], *others = _evidence_first([read_sweep(setting, place) for place in found])
            lesser += others
    if not sweeps and not energies:
        raise DepthlrError(f"{folder} holds no results of a recipe: run depthlr reproduce --out {folder} first.")
    return Kept(sweeps, energies, tuple(lesser))


def _evidence_first(read: list[Read]) -> list[Read]:
    """The fullest protocol first, but an unfinished one behind any that is finished."""
    return sorted(read, key=lambda one: not one.counts)


def _facts(place: Place) -> dict[str, Any]:
    file = place.file("json")
    try:
        found = json.loads(read_text(file))
        lacking = [name for name in FACTS if name not in found]
    except (TypeError, ValueError) as error:
        raise DepthlrError(f"{file} is no JSON of a setting ({error}): restore the file, or make it again.") from error
    if lacking:
        raise DepthlrError(f"{file} lacks {lacking[0]}: restore the file, or make it again.")
    return dict(found)


def read_sweep(setting: Setting, place: Place) -> Sweep:
    """A setting's sweep from its tables."""
    facts, file = _facts(place), place.file("csv")
    rows = read_table(file, CELLS)
    _whole(file, len(rows), facts.get("cells"))
    with _numbers(file):
        records = tuple(_record(row) for row in rows)
        depths = {int(row["size"]): int(row["depth"]) for row in rows}
    results = Results(study_from_dict(facts["study"]), records, depths)
    if not facts["complete"]:
        results = _decided(results)
    return Sweep(setting, place.protocol, facts, results, _carried(place.file("carried.csv")))


def _decided(results: Results) -> Results:
    """An unfinished sweep without the size it was at: what is best there so far is no optimum yet."""
    undecided = min((cell.size for cell in results.missing), default=math.inf)
    return replace(results, records=tuple(record for record in results.records if record.cell.size < undecided))


def _record(row: Mapping[str, str]) -> Record:
    cell = Cell(int(row["size"]), int(row["seed"]), float(row["rate"]))
    return Record(cell, float(row["loss"]), row["diverged"] == "true", float(row["seconds"]), finished="", losses=b"")


def _carried(file: Path) -> tuple[Carried, ...]:
    if not file.is_file():
        return ()
    found: dict[tuple[str, int, float], list[float]] = {}
    rows = read_table(file, CARRIED)
    with _numbers(file):
        for row in rows:
            key = (row["rule"], int(row["size"]), float(row["rate"]))
            found.setdefault(key, []).append(float(row["loss"]))
    return tuple(Carried(*key, tuple(losses)) for key, losses in found.items())


def read_energies(setting: EnergySetting, place: Place) -> Energies:
    """A setting's energies from their table."""
    facts, file = _facts(place), place.file("csv")
    rows = read_table(file, ENERGIES)
    _whole(file, len(rows), facts.get("cells"))
    with _numbers(file):
        return Energies(
            setting,
            place.protocol,
            facts,
            depths=tuple(int(row["depth"]) for row in rows),
            sizes=tuple(int(row["size"]) for row in rows),
            means=_floats(rows, "mean"),
            readouts=_floats(rows, "readout"),
        )


def _whole(file: Path, rows: int, cells: Any) -> None:
    """A table that was cut short would give other slopes."""
    if rows != cells:
        raise DepthlrError(f"{file} has {rows} rows, its JSON says {cells} cells: restore the file, or make it again.")


def _floats(rows: Sequence[Mapping[str, str]], column: str) -> tuple[float, ...]:
    return tuple(float(row[column]) for row in rows)


@contextmanager
def _numbers(file: Path) -> Iterator[None]:
    """A cell that is no number, as a sentence."""
    try:
        yield
    except ValueError as error:
        raise DepthlrError(
            f"{file} has a cell that is no number ({error}): restore the file, or make it again."
        ) from error
