"""Running a study: ask the search what to run, train it, keep it at once, until nothing is wanted."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol

from depthlr.data.examples import Examples
from depthlr.errors import DepthlrError, exits_told
from depthlr.study.description import Study
from depthlr.study.facts import Environment
from depthlr.study.facts import environment as this_environment
from depthlr.study.record import Record, record
from depthlr.study.results import Results, results_of
from depthlr.study.search import Estimate, SearchState
from depthlr.study.store import Content, Store, open_store
from depthlr.study.task import data_digest, judged_steps
from depthlr.training.cell import Cell
from depthlr.training.executor import Executor


class SweepInterrupted(KeyboardInterrupt):
    """Raised in place of KeyboardInterrupt; `command` resumes the sweep where it stopped."""

    def __init__(self, path: Path, cells: int) -> None:
        self.path = path
        self.cells = cells
        self.command = f"depthlr sweep {shlex.quote(str(path))}"
        super().__init__(f"stopped with {cells} cells kept in {path}; go on with: {self.command}")


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
    executor: Executor,
    store_path: Path | str,
    *,
    examples: Examples | None = None,
    held_out: Examples | None = None,
    depths: Mapping[int, int] | None = None,
    progress: Progress | None = None,
    environment: Environment | None = None,
    retry_failed: bool = False,
) -> Results:
    """Run a study, or what is left of it, into its file.

    Interrupted by Ctrl-C, or killed, it has lost no finished cell, and the same call goes on from there.

    Args:
        study: what to sweep.
        executor: trains the cells. It is not closed, but cells that it still trains when the sweep ends are cancelled.
        store_path: the study's file.
        examples: what the study trains on; their digest is recorded.
        held_out: what it is evaluated on, if anything.
        depths: effective depth by size, recorded too.
        progress: told of every finished cell.
        environment: what trains the cells, recorded too; this process unless given.
        retry_failed: train the cells again that failed in an earlier run.
    """
    last = judged_steps(study, examples)
    path = Path(store_path)
    watch = progress or Silent()
    digest = data_digest(examples, held_out)
    with open_store(path, study, data_digest=digest, depths=depths) as store:
        if retry_failed:
            store.drop_failed()
        content = store.content()
        state = search_state(content)
        failures = _Failures(content.records.values())
        watch.begins(list(content.records.values()), content.damaged, state.estimate())
        if content.damaged:
            store.drop_damaged()
        if state.missing:
            store.ran_on(environment or this_environment())
        del content  # every step's loss of every cell
        try:
            # Closed, it cancels what is being trained, come what may.
            with exits_told(), closing(_train(study, executor, store, state, last)) as trained:
                for done in trained:
                    watch.finished(done, state.estimate())
                    failures.add(done)
                    if state.finished(done.cell.size):
                        failures.check(done.cell.size)
        except KeyboardInterrupt as error:
            raise SweepInterrupted(path, len(state)) from error
        return results_of(store.content())


def search_state(content: Content) -> SearchState:
    """The search of a study, with what its file holds."""
    losses = {cell: kept.loss for cell, kept in content.records.items()}
    seconds = {cell: kept.seconds for cell, kept in content.records.items()}
    return SearchState(content.study.search, content.study.model.sizes, losses, seconds)


def _train(
    study: Study, executor: Executor, store: Store, state: SearchState, last: int | None
) -> Generator[Record, None, None]:
    """Every cell that the search wants, wave by wave, kept on disk before it is handed over."""
    while wave := state.missing:
        with closing(executor.train(wave)) as trained:
            for cell, outcome in trained:
                done = record(cell, outcome, last, metric=study.training.metric)
                store.put(done)
                state.tell(cell, done.loss, done.seconds)
                yield done


class _Failures:
    """Counts failed cells by size. If all cells of a size fail, larger sizes would fail for the same reason."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._cells: Counter[int] = Counter()
        self._failed: Counter[int] = Counter()
        self._reason: dict[int, str] = {}
        for kept in records:
            self.add(kept)

    def add(self, kept: Record) -> None:
        size = kept.cell.size
        self._cells[size] += 1
        if kept.failure:
            self._failed[size] += 1
            self._reason.setdefault(size, kept.failure)

    def check(self, size: int) -> None:
        """Raise if every cell of a size that is finished has failed."""
        if self._failed[size] == self._cells[size]:
            raise DepthlrError(
                f"all {self._cells[size]} cells of size {size} failed ({self._reason[size]}): mend that, and run the "
                "same again with --retry-failed."
            )
