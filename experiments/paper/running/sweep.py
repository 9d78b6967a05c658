"""Running a setting, or what is left of it: sweep, carry, time the plain loop, and write what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from depthlr.data.examples import Examples
from depthlr.study.description import Study
from depthlr.study.results import Results, read_results
from depthlr.study.search import Progress
from depthlr.study.store import open_store, read_store
from depthlr.study.tasks import depths_of, training_in_steps
from depthlr.training.cell import Cell, Outcome
from depthlr.training.device import default_device
from experiments.paper.running.carried import COLUMNS as CARRIED
from experiments.paper.running.carried import is_stale, train_carried
from experiments.paper.running.job import Job
from experiments.paper.running.plain_grid import plain_cell_seconds, plain_grid_seconds, sampled_sizes
from experiments.paper.running.recalled import Recalling, beginnings
from experiments.paper.running.written import CELLS, is_fuller
from experiments.running import SAMPLED, Deadline, Facts, OutOfTime, provenance, read_facts, sweep_study
from experiments.tables import make_folder, write_json, write_table

Watch = Callable[[Study], AbstractContextManager[Progress]]


def unwatched(study: Study) -> AbstractContextManager[Progress]:
    return nullcontext(Progress())


def run_sweep(job: Job, until: Deadline, watch: Watch = unwatched) -> bool:
    """Go on with a job, and write its tables, finished or not; True when nothing of it is left to do."""
    examples = job.examples()
    make_folder(job.store.parent)
    facts = read_facts(job.facts)
    depths = depths_of(job.study, examples.input)
    with open_store(job.store, job.study, data_digest=examples.digest, depths=depths):
        pass  # refuses another study, or other data, before anything is written
    carried: list[dict[str, Any]] = []
    try:
        results = _swept(job, examples, depths, facts, until, watch)
        if job.source is not None:
            with facts.timing("carried_seconds", job.facts, job.at_once) as done:
                carried = train_carried(results, job.source, examples, job.work, until, done, job.workers)
        if job.at_once == 1 and job.study.search.kind != "grid":  # which replaces no grid
            _time_plain_loop(job, examples, facts, until)
    except OutOfTime:
        return False
    finally:
        _write(job, read_results(job.store), carried, facts)
    return True


def _swept(
    job: Job, examples: Examples, depths: Mapping[int, int], facts: Facts, until: Deadline, watch: Watch
) -> Results:
    study = job.study
    before = read_results(job.store)
    if before.complete:
        if not facts.provenance and before.environments:  # the facts were lost, the store knows what trained it
            facts.provenance = provenance(study.training.precision, examples, before.environments[-1])
        return before
    until.check()
    facts.provenance = provenance(study.training.precision, examples)
    known: Mapping[Cell, Outcome] = {}
    if job.longer is not None and job.longer.is_file():
        longer = read_store(job.longer)
        known = beginnings(longer, study, training_in_steps(study, examples).run_steps, examples.digest)
        if known:
            with open_store(job.store, study) as store:
                for environment in longer.environments:
                    store.record_environment(environment)
    with (
        facts.timing("sweep_seconds", job.facts, job.at_once) as done,
        watch(study) as progress,
    ):
        return sweep_study(
            study,
            examples,
            depths,
            job.store,
            until,
            progress=progress,
            done=done,
            workers=job.workers,
            wrap=partial(Recalling, known=known),
        )


def _time_plain_loop(job: Job, examples: Examples, facts: Facts, until: Deadline) -> None:
    if facts.plain_grid_seconds is not None:
        return
    for size in sorted(sampled_sizes(job.study) - set(facts.plain_cell_seconds)):
        until.check()
        facts.plain_cell_seconds[size] = plain_cell_seconds(job.study, size, examples, default_device())
        facts.write(job.facts)


def _write(job: Job, results: Results, carried: list[dict[str, Any]], facts: Facts) -> None:
    """The cells as CSV, and all that was fixed or measured besides as JSON; never over a fuller table."""
    if not results.records or not facts.provenance:
        return
    if not results.complete and is_fuller(job.out, len(results.records)):
        return
    sampled = sampled_sizes(results.study) <= set(facts.plain_cell_seconds)
    plain = plain_grid_seconds(results.study, facts.plain_cell_seconds) if sampled else facts.plain_grid_seconds
    content = {
        "recipe": job.out.recipe,
        "setting": job.out.setting,
        "protocol": job.out.protocol,
        "complete": results.complete,
        "cells": len(results.records),
        **facts.provenance,
        "environments": [vars(one) for one in results.environments],  # all that trained it; above stands the last
        "at_once": facts.at_once,  # jobs that shared the device; seconds are this one's share
        "sweep_seconds": round(facts.sweep_seconds, 2),
        "carried_seconds": round(facts.carried_seconds, 2) or None,
        "plain_grid_seconds": None if plain is None else round(plain, 2),
        "plain_grid_is": SAMPLED if sampled else facts.plain_grid_is,
        "study": results.study.to_dict(),
    }
    write_table(job.out.file("csv"), CELLS, results.rows(times=True))
    write_json(job.out.file("json"), content)
    if carried:
        write_table(job.out.file("carried.csv"), CARRIED, carried)
    elif is_stale(job.out.file("carried.csv"), results, job.source):
        job.out.file("carried.csv").unlink()  # carried from another sweep's rate, it would be held against this one's
