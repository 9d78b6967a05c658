"""Running a sweep, or what is left of it: train, carry rates, time the plain loop, and write the tables."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from depthlr.data.examples import Examples
from depthlr.study.description import Study
from depthlr.study.record import Content, Record
from depthlr.study.results import Results, read_results
from depthlr.study.search import Progress
from depthlr.study.store import open_store, read_store
from depthlr.study.tasks import depths_of, task_at, training_in_steps
from depthlr.training.cell import Cell, Outcome, has_diverged
from depthlr.training.device import default_device
from depthlr.training.executor import Executor, Finished
from depthlr.training.task import Task
from experiments.paper.running.carried import is_stale, train_carried
from experiments.paper.running.jobs import Job
from experiments.paper.running.tables import CARRIED, CELLS, write_setting
from experiments.plain_loop import train_plainly
from experiments.running import SAMPLED, Deadline, Facts, OutOfTime, provenance, read_facts, sweep_study
from experiments.tables import make_folder, write_table

Watch = Callable[[Study], AbstractContextManager[Progress]]
FEW, MORE = 5, 25  # steps of the two runs of the plain loop whose difference is a step's time
REPEATS = 3  # of each; the fastest counts, which nothing disturbed


def unwatched(study: Study) -> AbstractContextManager[Progress]:
    """For a caller that shows no progress."""
    return nullcontext(Progress())


def run_sweep(job: Job, until: Deadline, watch: Watch = unwatched) -> bool:
    """Go on with a job, and write its tables, finished or not. True when nothing of it is left to do.

    Args:
        job: what to run.
        until: when to stop; what has finished is kept.
        watch: opens the progress of a study.
    """
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
    with facts.timing("sweep_seconds", job.facts, job.at_once) as done, watch(study) as progress:
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


def beginnings(longer: Content, study: Study, steps: int, data_digest: str) -> dict[Cell, Outcome]:
    """The first steps of every cell of a longer sweep: they are this study's runs, and are not trained again.

    Args:
        longer: A sweep. If it is not this study on these data but for its epochs, it has no beginnings.
        study: the shorter study.
        steps: its steps.
        data_digest: of its data.
    """
    theirs = longer.study.training
    same = replace(theirs, epochs=study.training.epochs, steps=study.training.steps, metric=study.training.metric)
    if replace(longer.study, training=same).digest != study.digest or (theirs.epochs or 0) < (same.epochs or 0):
        return {}
    if longer.data_digest != data_digest:
        return {}
    # One that came from a table has no loss of every step.
    return {cell: _beginning(record, steps) for cell, record in longer.records.items() if record.losses}


def _beginning(record: Record, steps: int) -> Outcome:
    """A run that stopped within these steps had diverged by then; one that diverged later had not."""
    losses = np.frombuffer(record.losses, "<f4").astype(np.float32)[:steps]
    diverged = len(losses) < steps or has_diverged(losses)
    return Outcome(losses, 0.0, diverged)


class Recalling(Executor):
    """Hands over the outcomes that are known, and gives all other cells to another executor.

    Args:
        executor: the other executor.
        known: outcomes by cell.
    """

    def __init__(self, executor: Executor, known: Mapping[Cell, Outcome]) -> None:
        self._executor, self._known = executor, known

    def train_together(self, cells: Iterable[Cell]) -> Generator[Finished, None, None]:
        wanted = list(cells)
        recalled = [(cell, self._known[cell]) for cell in wanted if cell in self._known]
        if recalled:
            yield recalled
        yield from self._executor.train_together(cell for cell in wanted if cell not in self._known)


def _time_plain_loop(job: Job, examples: Examples, facts: Facts, until: Deadline) -> None:
    """What the plain loop over the whole grid would take on this device: timed on a few steps, not run."""
    if facts.plain_grid_seconds is not None:
        return
    for size in sorted(sampled_sizes(job.study) - set(facts.plain_cell_seconds)):
        until.check()
        facts.plain_cell_seconds[size] = plain_cell_seconds(job.study, size, examples, default_device())
        facts.write(job.facts)


def sampled_sizes(study: Study) -> set[int]:
    """The smallest, the middle and the largest: a cell's time grows linearly in between, as the model's layers do."""
    sizes = study.model.sizes
    return {sizes[0], sizes[len(sizes) // 2], sizes[-1]}


def plain_cell_seconds(study: Study, size: int, examples: Examples, device: str) -> float:
    """One cell of the plain loop: building and initializing it, and its steps. TF32 on a GPU, fp32 elsewhere.

    Args:
        study: what the cell belongs to.
        size: its size.
        examples: the data, which lies on the device before the clock starts.
        device: where to train.
    """
    task = task_at(study, size, examples.to(device))
    few, more = min(FEW, task.training.run_steps), min(MORE, task.training.run_steps)
    _seconds(task, study, size, few, device)  # the first run of a process picks algorithms
    short = _seconds(task, study, size, few, device)
    if more == few:
        return short
    step = max(0.0, _seconds(task, study, size, more, device) - short) / (more - few)
    return short + step * (task.training.run_steps - few)


def _seconds(task: Task, study: Study, size: int, steps: int, device: str) -> float:
    precision = "tf32" if torch.device(device).type == "cuda" else "fp32"
    sampled = replace(task, training=replace(task.training, steps=steps, precision=precision))
    cell = Cell(size, study.search.seeds[0], study.search.low)
    return min(train_plainly(sampled, cell, device).seconds for _ in range(REPEATS))


def plain_grid_seconds(study: Study, cell_seconds: Mapping[int, float]) -> float:
    """The time of every rate with every seed at every size.

    Args:
        study: the sweep.
        cell_seconds: by size, of the sizes that were timed.
    """
    timed = sorted(cell_seconds)
    cells = np.interp(study.model.sizes, timed, [cell_seconds[size] for size in timed])
    return float(cells.sum()) * study.search.points * len(study.search.seeds)


def _write(job: Job, results: Results, carried: list[dict[str, Any]], facts: Facts) -> None:
    """The cells as CSV, and all that was fixed or measured besides as JSON."""
    if not results.records or not facts.provenance:
        return
    sampled = sampled_sizes(results.study) <= set(facts.plain_cell_seconds)
    plain = plain_grid_seconds(results.study, facts.plain_cell_seconds) if sampled else facts.plain_grid_seconds
    content = {
        **facts.provenance,
        "environments": [vars(one) for one in results.environments],  # all that trained it; above stands the last
        "at_once": facts.at_once,  # jobs that shared the device; seconds are this one's share
        "sweep_seconds": round(facts.sweep_seconds, 2),
        "carried_seconds": round(facts.carried_seconds, 2) or None,
        "plain_grid_seconds": None if plain is None else round(plain, 2),
        "plain_grid_is": SAMPLED if sampled else facts.plain_grid_is,
        "study": results.study.to_dict(),
    }
    if not write_setting(job.out, CELLS, results.rows(times=True), content, complete=results.complete):
        return
    if carried:
        write_table(job.out.file("carried.csv"), CARRIED, carried)
    elif is_stale(job.out.file("carried.csv"), results, job.source):
        job.out.file("carried.csv").unlink()  # carried from another sweep's rate, it would be held against this one's
