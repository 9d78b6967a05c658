"""Doing one job of the plan."""

from __future__ import annotations

from pathlib import Path

from depthlr.errors import DepthlrError
from experiments.realbench.chosen_rates import long_cells, regret_cells, suggested_cells
from experiments.realbench.dynamics import write_dynamics
from experiments.realbench.measured import write_measured, write_suggestions
from experiments.realbench.oracle import sweep_recipe, train_rates
from experiments.realbench.plan import PARTS, Job
from experiments.realbench.readings import write_readings
from experiments.realbench.recipes import RealRecipe, recipe_named, smoked
from experiments.realbench.scores import read_tuned
from experiments.realbench.tuning_free import write_tuning_free

SMOKE_BATCHES = 3
LONG_AT_ONCE = 4  # of runs that take minutes: fewer beside each other end sooner, and a call keeps what has ended


def job_named(name: str, tables: Path) -> Job:
    """The plan's job of that name.

    Raises:
        DepthlrError: the plan has none.
    """
    for part in PARTS:
        for job in part.jobs(tables):
            if job.name == name:
                return job
    raise DepthlrError(f"the plan has no job {name!r}: python -m experiments.realbench plan --jobs.")


def do_job(
    job: Job, data: Path, work: Path, tables: Path, *, seconds: float | None, device: str, smoke: bool = False
) -> bool:
    """Make a job's table, or go on with it; True when it is finished.

    Args:
        job: what to do.
        data: the folder of the packed data.
        work: where sweeps are kept.
        tables: where tables lie.
        seconds: stop after so long.
        device: where measurements are taken; sweeps take a GPU if there is one.
        smoke: a few steps at two sizes, to see that it runs.
    """
    recipe = smoked(job.recipe) if smoke else job.recipe
    table = tables / job.table
    store = work / f"{job.name.replace('/', '+')}.sqlite"
    if job.kind == "sweep":
        return sweep_recipe(recipe, data, work, tables, seconds=seconds)
    if job.kind == "long":
        cells = long_cells(recipe, tables / job.needs[0])
        return train_rates(recipe, cells, data, store, table, seconds=seconds, at_once=LONG_AT_ONCE)
    if job.kind == "regret":
        return train_rates(recipe, regret_cells(recipe, tables), data, store, table, seconds=seconds)
    if job.kind == "suggested":
        return train_rates(recipe, suggested_cells(recipe, tables), data, store, table, seconds=seconds)
    batches = SMOKE_BATCHES if smoke else None
    if job.kind == "measured":
        return write_measured(recipe, data, table, seconds=seconds, device=device, batches=batches)
    if job.kind == "suggestions":
        return write_suggestions(recipe, data, table, seconds=seconds, device=device, batches=batches)
    if job.kind == "tuning-free":
        return write_tuning_free(recipe, data, table, seconds=seconds, device=device)
    rate = smallest_rate(recipe, tables)
    if job.kind == "dynamics":
        return write_dynamics(recipe, data, rate, table, seconds=seconds, device=device)
    if smoke:
        write_readings(recipe, data, rate, table, device=device, steps=(0, 2), seeds=(0,), multiples=(1.0,))
    else:
        write_readings(recipe, data, rate, table, device=device)
    return True


def smallest_rate(recipe: RealRecipe, tables: Path) -> float:
    """The rate that was tuned on the smallest size of the recipe of which this one is a variant."""
    base = recipe_named(recipe.name.partition("+")[0])
    tuned = read_tuned(tables / f"{base.name}.csv")
    return float(10 ** tuned.decades[min(tuned.decades)])
