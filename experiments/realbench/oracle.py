"""Training runs on RealBench's recipes: a sweep for the tuned rates, or runs at chosen rates; a table of either.

A table is written after every few runs, finished or not, and goes on from where it is, with its work folder or without.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from depthlr.data.examples import Examples
from depthlr.study.description import Study
from depthlr.study.record import Record, current_environment, judge_of, make_record
from depthlr.study.results import results_of
from depthlr.study.run import sweep
from depthlr.study.search import Estimate, Progress
from depthlr.study.store import open_store, read_store
from depthlr.study.tasks import data_digest, depths_of, load_data, task_at
from depthlr.training.cell import Cell
from depthlr.training.executor import Executor
from depthlr.training.local import open_executor
from experiments.realbench.kept import Rows, environments_of, known_rows, records_of, write_rows
from experiments.realbench.recipes import RealRecipe

WRITTEN_EVERY = 20.0  # seconds between two writings of an unfinished table


@dataclass(frozen=True)
class Work:
    """What is trained, on what, and where it is kept."""

    recipe: RealRecipe
    study: Study  # of the recipe, its data placed
    examples: Examples
    held_out: Examples | None
    store: Path
    table: Path
    known: Rows

    @property
    def depths(self) -> dict[int, int]:
        return depths_of(self.study, self.examples.input)

    @property
    def digest(self) -> str | None:
        return data_digest(self.examples, self.held_out)

    def write(self, *, complete: bool) -> None:
        """The table of what the store holds."""
        write_rows(results_of(read_store(self.store)), self.known, self.table, complete=complete)

    @contextmanager
    def engine(self) -> Iterator[Executor]:
        """What trains the cells."""
        make_task = partial(task_at, self.study, examples=self.examples, held_out=self.held_out)
        with open_executor(make_task) as executor:
            yield executor


class Stopwatch(Progress):
    """Progress that says how far a sweep came, writes its table now and then, and ends it when its time is up."""

    def __init__(self, work: Work, seconds: float | None) -> None:
        self._work, self._start = work, time.monotonic()
        self._until = None if seconds is None else self._start + seconds
        self._written = self._start

    def begins(self, known: Sequence[Record], damaged: Sequence[Cell], estimate: Estimate) -> None:
        self._say(f"{len(known)} runs known, about {estimate.likely} to come")

    def finished(self, record: Record, estimate: Estimate) -> None:
        self._say(f"size {record.cell.size} seed {record.cell.seed}: about {estimate.likely} to come")
        if estimate.most:  # after the last run of all nothing is left to stop
            self.look()

    def look(self) -> None:
        """After each run but the last."""
        now = time.monotonic()
        if self._until is not None and now > self._until:
            raise KeyboardInterrupt
        if now > self._written + WRITTEN_EVERY:
            self._work.write(complete=False)
            self._written = now

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._start:6.0f} s  {self._work.recipe.name}: {text}", flush=True)


def sweep_recipe(recipe: RealRecipe, data: Path, work: Path, tables: Path, *, seconds: float | None = None) -> bool:
    """Sweep a recipe, or what is left of it, and write its table; True when it is finished.

    Args:
        recipe: what to sweep.
        data: the folder of the packed data.
        work: where the sweep's file lies.
        tables: where tables lie; runs that they hold are not trained again.
        seconds: stop after so long; the same call goes on.
    """
    job = begin(recipe, data, work / f"{recipe.name}.sqlite", tables / f"{recipe.name}.csv", tables)
    complete = False
    try:
        with job.engine() as executor:
            complete = sweep(
                job.study,
                executor,
                job.store,
                examples=job.examples,
                held_out=job.held_out,
                depths=job.depths,
                progress=Stopwatch(job, seconds),
                retry_failed=True,
            ).complete
    except KeyboardInterrupt:  # of the stopwatch, or of a person
        pass
    finally:
        job.write(complete=complete)
    return complete


def train_rates(
    recipe: RealRecipe,
    cells: Iterable[Cell],
    data: Path,
    store: Path,
    table: Path,
    *,
    seconds: float | None = None,
    at_once: int = 8,
) -> bool:
    """Train a recipe at chosen rates, and write their table; True when it is finished.

    Args:
        recipe: what to train.
        cells: sizes, seeds and rates, the most wanted first.
        data: the folder of the packed data.
        store: the file that keeps the runs.
        table: the table's file; runs that it holds are not trained again.
        seconds: stop after so long; the same call goes on.
        at_once: runs that are begun together: what is cut off loses no more than these.
    """
    wanted = list(dict.fromkeys(cells))
    own = replace(recipe, name=table.stem)
    job = begin(own, data, store, table, table.parent)
    watch = Stopwatch(job, seconds)
    complete = False
    try:
        with job.engine() as executor, open_store(store, job.study, data_digest=job.digest) as kept:
            kept.drop_failed()
            known = kept.content().records
            missing = [cell for cell in wanted if cell not in known]
            if missing:
                kept.record_environment(current_environment())
            left, judge = len(missing), judge_of(job.study, job.examples)
            for place in range(0, len(missing), at_once):
                for cell, outcome in executor.train(missing[place : place + at_once]):
                    kept.put(make_record(cell, outcome, judge))
                    print(f"{own.name}: size {cell.size} seed {cell.seed}", flush=True)
                    left -= 1
                    if left:
                        watch.look()
        complete = True
    except KeyboardInterrupt:
        pass
    finally:
        job.write(complete=complete)
    return complete


def begin(recipe: RealRecipe, data: Path, store: Path, table: Path, tables: Path) -> Work:
    """Load the data, and lay the store out with the runs that tables hold and it does not."""
    study = placed(recipe, data)
    examples, held_out = load_data(study)
    job = Work(recipe, study, examples, held_out, store, table, known_rows(recipe, tables))
    store.parent.mkdir(parents=True, exist_ok=True)
    with open_store(store, study, data_digest=job.digest, depths=job.depths) as kept:
        there = kept.content().records
        kept.put(*(record for record in records_of(job.known, study) if record.cell not in there))
        for environment in environments_of(table):
            kept.record_environment(environment)
    return job


def placed(recipe: RealRecipe, data: Path) -> Study:
    """The recipe's study, its data in this folder."""
    return replace(recipe.study, data=replace(recipe.study.data, folder=str(data)))
