"""From what a user asks for to jobs: which settings, each once, in the order of importance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from depthlr.errors import DepthlrError, did_you_mean
from depthlr.study.results import read_results
from experiments.paper import RECIPES
from experiments.paper.energy_setting import EnergySetting
from experiments.paper.place import Place
from experiments.paper.protocol import SMOKE_SIZES, protocol_named
from experiments.paper.recipe import AnySetting, Recipe
from experiments.paper.running.carried import has_carried
from experiments.paper.running.energies import all_measured, run_energies
from experiments.paper.running.job import Job
from experiments.paper.running.resumed import resume_tables
from experiments.paper.running.sweep import Watch, run_sweep, unwatched
from experiments.running import Deadline


def chosen(recipes: Sequence[str] = (), only: Sequence[str] = ()) -> list[AnySetting]:
    """The settings of these recipes (of all, if none is named), each once; `only` names some of them."""
    for name in recipes:
        _check("recipe", name, RECIPES)
    asked = [recipe for name, recipe in RECIPES.items() if not recipes or name in recipes]
    settings = {setting.name: setting for recipe in asked for setting in recipe.settings}
    for name in only:
        _check("setting", name, settings)
    return [setting for name, setting in settings.items() if not only or name in only]


def home(setting: AnySetting) -> Recipe:
    """The first recipe that holds a setting: where its files lie."""
    return next(recipe for recipe in RECIPES.values() if setting in recipe.settings)


def job_of(setting: AnySetting, protocol: str, precision: str, *, data: Path, work: Path, out: Path) -> Job:
    """A setting under a protocol, with its places."""
    study, recipe = setting.study(protocol_named(protocol), precision), home(setting)
    here, there = (Place(folder, recipe.name, setting.name, protocol) for folder in (work, out))
    if isinstance(setting, EnergySetting):
        return Job(setting, study, data, here, there)
    longer = None
    if setting.longer is not None:
        longer = Place(work, home(setting.longer).name, setting.longer.name, protocol).file("sqlite")
    source = SMOKE_SIZES[0] if recipe.source is not None and protocol == "smoke" else recipe.source
    workers = 1 if protocol == "smoke" else None  # processes take longer to start than the smoke lasts
    return Job(setting, study, data, here, there, longer, source, workers)


def run_job(job: Job, until: Deadline, watch: Watch = unwatched) -> bool:
    """Go on with a job, and write its tables, finished or not; True when nothing of it is left to do."""
    if job.resume_tables:
        resume_tables(job)
    return run_energies(job, until) if isinstance(job.setting, EnergySetting) else run_sweep(job, until, watch)


def is_measured(job: Job) -> bool:
    """Is all that was to be measured? A plain grid may still have to be timed."""
    if isinstance(job.setting, EnergySetting):
        return all_measured(job)
    if not job.store.is_file():
        return False
    results = read_results(job.store)
    carried = job.source is None or has_carried(job.out.file("carried.csv"), results, job.source)
    return results.complete and carried


def _check(kind: str, name: str, known: Iterable[str]) -> None:
    names = list(known)
    if name not in names:
        raise DepthlrError(f"There is no {kind} {name!r}{did_you_mean(name, names)}: choose from {', '.join(names)}.")
