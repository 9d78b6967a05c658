"""Running a study: ask the search what to run, train it, keep it at once, until nothing is wanted."""

from __future__ import annotations

import math
import shlex
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from depthlr import check
from depthlr.data.examples import Examples
from depthlr.errors import DepthlrError, report_exit
from depthlr.study.description import Models, Search, Study
from depthlr.study.record import Environment, Record, current_environment, make_record
from depthlr.study.results import Results, results_of
from depthlr.study.search import Estimate, SearchState, search_state
from depthlr.study.store import Store, open_store
from depthlr.study.task import data_digest, judged_steps
from depthlr.training.cell import Cell, Outcome
from depthlr.training.executor import Executor, InProcess
from depthlr.training.training import Training

MOST_UNEVEN = 1e-3  # of a grid step: how far a rate may lie from the even grid


class SweepInterrupted(KeyboardInterrupt):
    """Raised in place of KeyboardInterrupt. `command` resumes the sweep."""

    def __init__(self, path: Path, cells: int) -> None:
        self.path = path
        self.cells = cells
        self.command = f"depthlr sweep {shlex.quote(str(path))}"
        super().__init__(f"stopped with {cells} cells kept in {path}; go on with: {self.command}")


class Progress:
    """Receives the events of a sweep. This class ignores them; a subclass shows them."""

    def begins(self, known: Sequence[Record], damaged: Sequence[Cell], estimate: Estimate) -> None:
        """The sweep begins.

        Args:
            known: The cells that an earlier run finished.
            damaged: The cells whose records cannot be trusted.
            estimate: What is still to come.
        """

    def finished(self, record: Record, estimate: Estimate) -> None:
        """A cell is done and kept.

        Args:
            record: The cell.
            estimate: What is still to come.
        """


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
    """Run a study, or the rest of it, into its file.

    If it is interrupted by Ctrl-C or killed, no finished cell is lost, and the same call resumes it.

    Args:
        study: What to sweep.
        executor: Trains the cells. It is not closed, but cells that it still trains when the sweep ends are cancelled.
        store_path: The study's file.
        examples: What the study trains on; their digest is recorded.
        held_out: What it is evaluated on, if anything.
        depths: Effective depth by size, recorded too.
        progress: Is told when the sweep begins and after every finished cell.
        environment: The machine and software that train the cells, to be recorded. None takes this process.
        retry_failed: Train the cells again that failed in an earlier run.
    """
    judged_last = judged_steps(study, examples)
    path = Path(store_path)
    watch = progress or Progress()
    digest = data_digest(examples, held_out)
    with open_store(path, study, data_digest=digest, depths=depths) as store:
        if retry_failed:
            store.drop_failed()
        content = store.content()
        state = search_state(study, content.records.values())
        failures: dict[int, list[str]] = defaultdict(list)  # by size, why each cell failed, or nothing
        for kept in content.records.values():
            failures[kept.cell.size].append(kept.failure)
        watch.begins(list(content.records.values()), content.damaged, state.estimate())
        if content.damaged:
            store.drop_damaged()
        if state.missing:
            store.record_environment(environment or current_environment())
        del content  # every step's loss of every cell
        try:
            # Closing the generator cancels the running cells, also after an error.
            with report_exit(), closing(_train_waves(study, executor, store, state, judged_last)) as trained:
                for done in trained:
                    watch.finished(done, state.estimate())
                    size = done.cell.size
                    failures[size].append(done.failure)
                    if state.nothing_missing(size):
                        _check_failures(size, failures[size])
        except KeyboardInterrupt as error:
            raise SweepInterrupted(path, len(state)) from error
        return results_of(store.content())


def sweep_function(
    train: Callable[[float, int, int], float],
    rates: Sequence[float],
    sizes: Sequence[int],
    seeds: int | Sequence[int] = 3,
    out: Path | str | None = None,
    *,
    kind: str = "adaptive",
    progress: Progress | None = None,
) -> Results:
    """Tune the learning rate of your own training function at several sizes.

    Args:
        train: Called as `train(rate, size, seed)`, one call at a time, in this process. It returns the loss. A loss
            that is not finite has diverged, and an error fails this cell alone.
        rates: The grid of rates, evenly spaced in the logarithm, such as `numpy.geomspace(1e-4, 1, 41)`.
        sizes: The sizes of the model, such as its numbers of layers.
        seeds: The seeds, or how many.
        out: The study's file. The same call resumes it. None keeps no file.
        kind: "adaptive" runs as many rates as finding the optimum takes, "grid" all of them.
        progress: Is told when the sweep begins and after every finished cell.
    """
    grid = sorted(check.rate("an entry of rates", float(rate)) for rate in rates)
    if len(grid) < 3:
        raise DepthlrError(f"rates has {len(grid)} entries: give three or more, such as numpy.geomspace(1e-4, 1, 41).")
    every = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    search = Search(kind, grid[0], grid[-1], len(grid), every)
    off = max(abs(math.log10(ours / theirs)) for ours, theirs in zip(search.rates, grid, strict=True))
    if off > MOST_UNEVEN * search.spacing:
        raise DepthlrError(
            "rates are not evenly spaced in the logarithm: write numpy.geomspace(low, high, points) in their place."
        )
    name = getattr(train, "__name__", "") or "function"
    study = Study(name, Models(sizes=tuple(sorted(sizes))), Training(), search=search)
    if out is not None:
        return sweep(study, FunctionExecutor(train), out, progress=progress)
    with tempfile.TemporaryDirectory() as folder:
        return sweep(study, FunctionExecutor(train), Path(folder) / "study.sqlite", progress=progress)


class FunctionExecutor(InProcess):
    """Trains cells by a function of the user's own."""

    def __init__(self, train: Callable[[float, int, int], float]) -> None:
        super().__init__()
        self._train = train

    def run(self, cell: Cell) -> Outcome:
        start = time.perf_counter()
        loss = float(self._train(cell.rate, cell.size, cell.seed))
        return Outcome(np.zeros(0, np.float32), time.perf_counter() - start, not math.isfinite(loss), loss=loss)


def _train_waves(
    study: Study, executor: Executor, store: Store, state: SearchState, judged_last: int | None
) -> Generator[Record, None, None]:
    """Every cell that the search wants, wave by wave, kept on disk before it is handed over."""
    while wave := state.missing:
        with closing(executor.train_together(wave)) as trained:
            for finished in trained:
                records = [make_record(*one, judged_last, metric=study.training.metric) for one in finished]
                store.put(*records)  # one commit, which on a disk takes longer than all else
                for done in records:
                    state.add(done.cell, done.loss, done.seconds)
                    yield done


def _check_failures(size: int, failures: Sequence[str]) -> None:
    """Raise if all cells of a size failed: those of larger sizes would fail for the same reason."""
    if all(failures):
        raise DepthlrError(
            f"all {len(failures)} cells of size {size} failed ({failures[0]}): mend that, and run the same again with "
            "--retry-failed."
        )
