"""A job: a setting under a protocol, with the places of its data, its work and its tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from depthlr.data.examples import Examples
from depthlr.study.description import Study
from experiments.examples import load_examples
from experiments.paper.place import Place
from experiments.paper.recipe import AnySetting
from experiments.paper.setting import Setting


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
        sequences = isinstance(self.setting, Setting) and self.setting.sequences
        return load_examples(self.setting.data, self.data, sequences=sequences)
