"""Running a study: ask the search what to run, train it, keep it at once, until nothing is wanted.

`sweep` takes any executor, `sweep_function` a training function of the user's own.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from depthlr import check
from depthlr.data.examples import Examples
from depthlr.errors import DepthlrError, report_exit
from depthlr.study.description import Models, Search, Study
from depthlr.study.record import Environment, Judge, Record, current_environment, judge_of, make_record
from depthlr.study.results import Results, results_of
from depthlr.study.search import Progress, SearchState, search_state
from depthlr.study.store import Store, open_store
from depthlr.study.tasks import data_digest
from depthlr.training.cell import Cell, Outcome
from depthlr.training.executor import Executor, InProcess
from depthlr.training.training import Training

MOST_UNEVEN = 0.1  # of a grid step: how far a rate may lie from the even grid, as 3e-3 between 1e-3 and 1e-2 does


class SweepInterrupted(KeyboardInterrupt):
    """Raised in place of KeyboardInterrupt. The same call again goes on from the cells that are kept.

    Args:
        path: The study's file.
        cells: How many cells it keeps.
    """

    def __init__(self, path: Path, cells: int) -> None:
        self.path = path
        self.cells = cells
        super().__init__(f"stopped with {cells} cells kept in {path}: make the same call again to go on")


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
    judge = judge_of(study, examples)
    path = Path(store_path)
    watch = progress or Progress()
    digest = data_digest(examples, held_out)
    with open_store(path, study, data_digest=digest, depths=depths) as store:
        content = store.content()
        any_succeeded = any(not record.failure for record in content.records.values())
        if content.records and (
            retry_failed or not any_succeeded
        ):  # a file whose cells all failed counts as an empty one
            store.drop_failed()
            content = store.content()
        state = search_state(study, content.records.values())
        ended: dict[int, list[Ended]] = defaultdict(list)  # by size
        for kept in content.records.values():
            ended[kept.cell.size].append(Ended(kept.loss, kept.failure))
        watch.begins(list(content.records.values()), content.damaged, state.estimate())
        if content.damaged:
            store.drop_damaged()
        if state.missing:
            store.record_environment(environment or current_environment())
        del content  # every step's loss of every cell
        try:
            # Closing the generator cancels the running cells, also after an error.
            with report_exit(), closing(_train_waves(executor, store, state, judge, any_succeeded)) as trained:
                for done in trained:
                    watch.finished(done, state.estimate())
                    size = done.cell.size
                    ended[size].append(Ended(done.loss, done.failure))
                    if state.nothing_missing(size):
                        _check_failures(size, ended)
        except KeyboardInterrupt as error:
            raise SweepInterrupted(path, len(state)) from error
        return results_of(store.content())


def _train_waves(
    executor: Executor, store: Store, state: SearchState, judge: Judge, any_succeeded: bool
) -> Generator[Record, None, None]:
    """Every cell that the search wants, wave by wave, kept on disk before it is handed over.

    Args:
        executor: Trains the cells.
        store: Keeps them.
        state: The search.
        judge: What a cell is judged by.
        any_succeeded: Some cell is known that did not fail. Until then, a failure of the whole study ends the sweep.
    """
    while wave := state.missing:
        with closing(executor.train_together(wave)) as trained:
            for finished in trained:
                any_succeeded = any_succeeded or any(outcome.failure is None for _, outcome in finished)
                for cell, outcome in finished:
                    if outcome.is_general and not any_succeeded:
                        where = f"size {cell.size}, seed {cell.seed}, rate {cell.rate:g}"
                        raise DepthlrError(f"the first run ({where}) has no loss: {outcome.failure}.")
                records = [make_record(*one, judge) for one in finished]
                store.put(*records)  # one commit, which on a disk takes longer than all else
                for done in records:
                    state.add(done.cell, done.loss, done.seconds)
                    yield done
        if state.missing == wave:
            raise DepthlrError(f"The executor {type(executor).__name__} gave no result for {len(wave)} cells.")


class Ended(NamedTuple):
    """How a cell ended. A record also holds the loss of every step, which is not kept in memory."""

    loss: float
    failure: str  # empty unless it failed


def _check_failures(size: int, ended: Mapping[int, Sequence[Ended]]) -> None:
    """Raise if no cell of a size has a loss, and some failed: those of larger sizes would fail for the same reason."""
    reasons = [one.failure for one in ended[size] if one.failure]
    if not reasons or any(math.isfinite(one.loss) for one in ended[size]):
        return
    count = len(ended[size])
    how = "failed" if len(reasons) == count else f"diverged or failed, {len(reasons)} of them failed"
    every_cell_failed = all(one.failure for cells in ended.values() for one in cells)
    retry = "" if every_cell_failed else " with --retry-failed, or retry_failed=True in a call"
    raise DepthlrError(
        f"all {count} cells of size {size} {how} ({reasons[0]}): mend that, and run the same again{retry}."
    )


def sweep_function(
    train: Callable[[float, int, int], float | Tensor],
    rates: Sequence[float],
    sizes: Sequence[int],
    seeds: int | Sequence[int] = 3,
    out: Path | str | None = None,
    *,
    kind: str = "adaptive",
    progress: Progress | None = None,
    retry_failed: bool = False,
) -> Results:
    """Tune the learning rate of your own training function at several sizes.

    Args:
        train: Called as `train(rate, size, seed)`, one call at a time, in this process. It returns the loss, a
            number or a tensor. A loss that is not finite has diverged, and an error fails this cell alone.
        rates: The grid of rates, evenly spaced in the logarithm, such as `numpy.geomspace(1e-4, 1, 41)`. Rates that
            lie within a tenth of a step of an even grid, such as 1e-3, 3e-3, 1e-2, are moved onto it.
        sizes: The sizes of the model, such as its numbers of layers.
        seeds: The seeds, or how many.
        out: The study's file. The same call resumes it. None keeps no file.
        kind: "adaptive" runs as many rates as finding the optimum takes, "grid" all of them.
        progress: Is told when the sweep begins and after every finished cell.
        retry_failed: Train the cells again that failed in an earlier call.
    """
    grid = sorted(check.rate("an entry of rates", float(rate)) for rate in rates)
    if len(grid) < 3:
        raise DepthlrError(f"rates has {len(grid)} entries: give three or more, such as numpy.geomspace(1e-4, 1, 41).")
    every = tuple(seeds) if isinstance(seeds, Iterable) else tuple(range(check.count("seeds", seeds)))
    search = Search(kind, grid[0], grid[-1], len(grid), every)
    off = max(abs(math.log10(ours / theirs)) for ours, theirs in zip(search.rates, grid, strict=True))
    if off > MOST_UNEVEN * search.spacing:
        raise DepthlrError(
            "rates are not evenly spaced in the logarithm: write "
            f"numpy.geomspace({grid[0]:g}, {grid[-1]:g}, {len(grid)}) in their place."
        )
    if not isinstance(sizes, Iterable):
        raise DepthlrError(f"sizes is {sizes!r}: give a list of sizes, such as [2, 4, 8].")
    name = getattr(train, "__name__", "") or "function"
    study = Study(name, Models(sizes=tuple(sorted(sizes))), Training(), search=search)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.sqlite" if out is None else out
        try:
            return sweep(study, FunctionExecutor(train), path, progress=progress, retry_failed=retry_failed)
        except SweepInterrupted as stop:
            if out is not None:
                raise
            raise KeyboardInterrupt(f"stopped after {stop.cells} cells: give out= to keep them") from stop


class FunctionExecutor(InProcess):
    """Trains cells by a function of the user's own."""

    def __init__(self, train: Callable[[float, int, int], float | Tensor]) -> None:
        self._train = train

    def run(self, cell: Cell) -> Outcome:
        start = time.perf_counter()
        found = self._train(cell.rate, cell.size, cell.seed)
        loss = float(found.detach() if isinstance(found, Tensor) else found)
        return Outcome(np.zeros(0, np.float32), time.perf_counter() - start, not math.isfinite(loss), loss=loss)
