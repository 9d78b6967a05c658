"""A job: a setting under a protocol, with the places of its data, its work and its tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from depthlr.data.examples import Examples
from depthlr.data.sources import load
from depthlr.study.description import Study
from experiments.paper.place import Place
from experiments.paper.recipe import AnySetting
from experiments.paper.running.sequences import Sequences
from experiments.paper.setting import Setting, folder_of


@dataclass(frozen=True)
class Job:
    """`work` keeps what is unfinished from call to call, `out` gets the tables."""

    setting: AnySetting
    study: Study
    data: Path
    work: Place
    out: Place
    longer: Path | None = None  # the store of the setting whose cells begin with this one's
    source: int | None = None  # the size whose tuned rate is carried to the others
    workers: int | None = None  # processes on a CPU; one a core, unless told
    resume_tables: bool = False  # where the work is gone, go on from the tables
    at_once: int = 1  # jobs that share the device; beside others the plain grid is not timed: it would take too long

    @property
    def store(self) -> Path:
        return self.work.file("sqlite")

    @property
    def energies(self) -> Path:
        return self.work.file("energies.csv")

    @property
    def facts(self) -> Path:
        return self.work.file("facts.json")

    def examples(self) -> Examples:
        found = _load(self.setting.data, folder_of(self.setting.data, self.data))
        return Sequences(found) if isinstance(self.setting, Setting) and self.setting.sequences else found


@lru_cache(maxsize=1)  # most settings of a recipe share theirs
def _load(name: str, folder: Path) -> Examples:
    return load(name, folder)
