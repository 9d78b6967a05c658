"""From what a user asks for to jobs: which settings, each once, and the places of their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from depthlr.data.examples import Examples
from depthlr.study.description import Study
from experiments.examples import load_examples
from experiments.paper.recipes import RECIPES
from experiments.paper.settings import PROTOCOLS, SMOKE_SIZES, AnySetting, EnergySetting, Recipe, Setting
from experiments.running import known_name


@dataclass(frozen=True)
class Place:
    """The files of one setting under one protocol, below a folder: FOLDER/RECIPE/SETTING.PROTOCOL and what they are."""

    folder: Path
    recipe: str
    setting: str
    protocol: str

    def file(self, kind: str) -> Path:
        """The path of a file.

        Args:
            kind: such as `csv` or `carried.csv`.
        """
        return self.folder / self.recipe / f"{self.setting}.{self.protocol}.{kind}"


@dataclass(frozen=True)
class Job:
    """A setting under a protocol. `work` keeps what is unfinished from call to call, `out` gets the tables."""

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


def chosen(recipes: Sequence[str] = (), only: Sequence[str] = ()) -> list[AnySetting]:
    """The settings of some recipes, each once, in the order of importance.

    Args:
        recipes: names of recipes; all if none is named.
        only: names of some of their settings; all if none is named.
    """
    for name in recipes:
        known_name("recipe", name, RECIPES)
    asked = [recipe for name, recipe in RECIPES.items() if not recipes or name in recipes]
    settings = {setting.name: setting for recipe in asked for setting in recipe.settings}
    for name in only:
        known_name("setting", name, settings)
    return [setting for name, setting in settings.items() if not only or name in only]


def home(setting: AnySetting) -> Recipe:
    """The first recipe that holds a setting: where its files lie.

    Args:
        setting: the setting.
    """
    return next(recipe for recipe in RECIPES.values() if setting in recipe.settings)


def job_of(setting: AnySetting, protocol: str, precision: str, *, data: Path, work: Path, out: Path) -> Job:
    """A setting under a protocol, with its places.

    Args:
        setting: the setting.
        protocol: a name of PROTOCOLS.
        precision: of the training.
        data: the folder of all data.
        work: the folder of unfinished work.
        out: the folder of tables.
    """
    study, recipe = setting.study(known_name("protocol", protocol, PROTOCOLS), precision), home(setting)
    here, there = (Place(folder, recipe.name, setting.name, protocol) for folder in (work, out))
    if isinstance(setting, EnergySetting):
        return Job(setting, study, data, here, there)
    longer = None
    if setting.longer is not None:
        longer = Place(work, home(setting.longer).name, setting.longer.name, protocol).file("sqlite")
    source = SMOKE_SIZES[0] if recipe.source is not None and protocol == "smoke" else recipe.source
    workers = 1 if protocol == "smoke" else None  # processes take longer to start than the smoke lasts
    return Job(setting, study, data, here, there, longer, source, workers)
