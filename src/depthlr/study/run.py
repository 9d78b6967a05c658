"""Running a study: ask the search what to run, train it, keep it at once, until nothing is wanted."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

from depthlr.data.examples import Examples
from depthlr.errors import DepthlrError, exits_told
from depthlr.study.description import Study
from depthlr.study.facts import Environment
from depthlr.study.facts import environment as this_environment
from depthlr.study.record import Record, record
from depthlr.study.results import Results, results_of
from depthlr.study.search import Estimate, estimate, wanted
from depthlr.study.store import Store, open_store
from depthlr.study.task import data_digest, judged_steps
from depthlr.training.cell import Cell, Runner


class SweepInterrupted(KeyboardInterrupt):
    """Raised in place of KeyboardInterrupt; `command` resumes the sweep where it stopped."""

    def __init__(self, path: Path, cells: int) -> None:
        self.path = path
        self.cells = cells
        self.command = f"depthlr sweep {shlex.quote(str(path))}"
        super().__init__(f"stopped with {cells} cells kept in {path}; go on with: {self.command}")


OpenRunner = Callable[[int], Runner]
"""A runner for the models of one size."""


class Progress(Protocol):
    """Told of a sweep as it goes."""

    def begins(self, known: Sequence[Record], damaged: Sequence[Cell], estimate: Estimate) -> None:
        """Before the first cell: what an earlier run left, and what is still to come."""

    def finished(self, record: Record, estimate: Estimate) -> None:
        """A cell is done and kept."""


class Silent:
    """Progress that nobody watches."""

    def begins(self, known: Sequence[Record], damaged: Sequence[Cell], estimate: Estimate) -> None:
        pass

    def finished(self, record: Record, estimate: Estimate) -> None:
        pass


def sweep(
    study: Study,
    open_runner: OpenRunner,
    store_path: Path | str,
    *,
    examples: Examples | None = None,
    held_out: Examples | None = None,
    depths: Mapping[int, int] | None = None,
    progress: Progress | None = None,
    environment: Environment | None = None,
    retry_failed: bool = False,
) -> Results:
    """Run a study, or what is left of it, into its file. The data's digest and `depths` are recorded with it.

    So is the `environment` that trains the cells: this process's, unless told otherwise. Interrupted by Ctrl-C, or
    killed, it has lost no finished cell, and the same call goes on from there.
    """
    last = judged_steps(study, examples)
    path = Path(store_path)
    watch = progress or Silent()
    digest = data_digest(examples, held_out)
    with open_store(path, study, data_digest=digest, depths=depths) as store:
        if retry_failed:
            store.drop_failed()
        content = store.content()
        records = dict(content.records)
        cells = _wanted(study, records)
        watch.begins(list(records.values()), content.damaged, _estimate(study, records, cells))
        if content.damaged:
            store.drop_damaged()
        if cells:
            store.ran_on(environment or this_environment())
        try:
            # Closed, it closes the runner, come what may.
            with exits_told(), closing(_train(study, open_runner, store, records, cells, last)) as trained:
                for done, left in trained:
                    watch.finished(done, _estimate(study, records, left))
        except KeyboardInterrupt as error:
            raise SweepInterrupted(path, len(records)) from error
        return results_of(store.content())


def _train(
    study: Study,
    open_runner: OpenRunner,
    store: Store,
    records: dict[Cell, Record],
    cells: Sequence[Cell],
    last: int | None,
) -> Generator[tuple[Record, Sequence[Cell]], None, None]:
    """From the wave `cells` on, every wanted cell, kept on disk and in `records` before it is handed over.

    With each comes what is wanted next; the search replays itself to say so, and is asked once a wave, not once a cell.
    """
    while cells:
        size = cells[0].size
        with _open(open_runner, size) as runner:
            while cells and cells[0].size == size:
                left = dict.fromkeys(cells)
                for cell, outcome in runner.train(cells):
                    left.pop(cell, None)
                    done = record(cell, outcome, last, metric=study.training.metric)
                    store.put(done)
                    records[cell] = done
                    wanted_next = list(left) or _wanted(study, records)
                    yield done, wanted_next
                if left:
                    raise DepthlrError(
                        f"The runner gave no result for {len(left)} of {len(cells)} cells, such as {min(left)}: the "
                        "others are kept; run the same again."
                    )
                cells = wanted_next
        _check_some_trained(records, size)


def _check_some_trained(records: Mapping[Cell, Record], size: int) -> None:
    """Every cell of a size that fails, fails for a reason that larger sizes would share."""
    here = [kept for cell, kept in records.items() if cell.size == size]
    if here and all(kept.failure for kept in here):
        raise DepthlrError(
            f"all {len(here)} cells of size {size} failed ({here[0].failure}): mend that, and run the same again with "
            "--retry-failed."
        )


def _wanted(study: Study, records: Mapping[Cell, Record]) -> list[Cell]:
    losses = {cell: kept.loss for cell, kept in records.items()}
    return wanted(study.search, study.model.sizes, losses)


@contextmanager
def _open(open_runner: OpenRunner, size: int) -> Iterator[Runner]:
    runner = open_runner(size)
    try:
        yield runner
    finally:
        runner.close()


def _estimate(study: Study, records: Mapping[Cell, Record], missing: Sequence[Cell]) -> Estimate:
    losses = {cell: kept.loss for cell, kept in records.items()}
    seconds = {cell: kept.seconds for cell, kept in records.items()}
    return estimate(study.search, study.model.sizes, losses, seconds, missing)
