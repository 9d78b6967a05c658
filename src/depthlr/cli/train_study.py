"""What `depthlr sweep`, `tune` and `demo` share: a study is trained into its file, with progress and signals."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Self

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table

from depthlr.cli.output import PlainConsole, print_note
from depthlr.models.spec import parse_spec
from depthlr.present.server import serving
from depthlr.present.text import duration_text, tuned_text
from depthlr.study.description import Study
from depthlr.study.record import Record
from depthlr.study.results import Results
from depthlr.study.run import SweepInterrupted, sweep
from depthlr.study.search import Estimate, Progress
from depthlr.study.tasks import OpenCluster, depths_of, executor_for, load_data
from depthlr.training.cell import Cell
from depthlr.training.executor import Limits

LINE_EVERY = 60.0  # seconds between two lines of progress where there is no terminal


def train_study(
    study: Study,
    path: Path,
    *,
    serve: bool = False,
    workers: int | None = None,
    limits: Limits | None = None,
    retry_failed: bool = False,
    open_cluster: OpenCluster | None = None,
) -> Results:
    """Run a study into its file, with progress. A signal ends the program with the command that goes on.

    Args:
        study: The study.
        path: Its file.
        serve: Show a live page.
        workers: Processes or commands at a time.
        limits: Of each cell.
        retry_failed: Train failed cells again.
        open_cluster: Opens the executor of a cluster. None trains on this machine.
    """
    examples, held_out = load_data(study) if study.training.has_length else (None, None)
    depths = None
    if study.model.spec is not None:
        depths = depths_of(study, None if examples is None else examples.input)
    own = study.model.spec is not None and parse_spec(study.model.spec).family != "zoo"
    if own and study.training.has_length and study.training.variance != "own":
        print_note(
            'note: weights are drawn anew by init_; training.variance = "own" keeps those that models come with.'
        )
    with _stops() as caught:
        try:
            with ExitStack() as stack:
                if serve:
                    print_note(f"follow it at {stack.enter_context(serving(path))}")
                progress = stack.enter_context(SweepProgress(study))
                executor = stack.enter_context(
                    executor_for(study, examples, held_out, workers=workers, limits=limits, open_cluster=open_cluster)
                )
                data: dict[str, Any] = {"examples": examples, "held_out": held_out, "depths": depths}
                return sweep(study, executor, path, **data, progress=progress, retry_failed=retry_failed)
        except SweepInterrupted as stop:
            command = shlex.join(["depthlr", *sys.argv[1:]])
            print_note(f"stopped with {stop.cells} cells kept in {stop.path}; go on with: {command}")
            raise typer.Exit(128 + (caught[0] if caught else signal.SIGINT)) from None


@contextmanager
def _stops() -> Iterator[list[int]]:
    """SIGTERM stops a sweep as Ctrl-C does; the list says which signal it was. While it stops, others are ignored."""
    caught: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if isinstance(sys.exception(), KeyboardInterrupt):  # it is being cleaned up after one, which takes moments
            return
        caught.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class SweepProgress(Progress):
    """A sweep as it goes, on stderr: the best rate of every size so far, and what is still to come.

    In a terminal it is a table that grows; elsewhere a line at the start, one a finished size and one a minute.
    """

    def __init__(self, study: Study, clock: Callable[[], float] = time.monotonic) -> None:
        self._study = study
        self._clock = clock
        self._began = self._said = clock()
        self._trained = 0.0  # seconds that the cells of this run took, one by one
        self._records: list[Record] = []
        self._size = 0  # the largest that has a finished cell
        self._left = Estimate(0, 0, 0, None)
        self._console = PlainConsole(stderr=True)
        self._live = Live(console=self._console, get_renderable=self._picture, transient=True, refresh_per_second=4)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def begins(self, known: Sequence[Record], damaged: Sequence[Cell], estimate: Estimate) -> None:
        self._records, self._left = list(known), estimate
        self._size = max((record.cell.size for record in known), default=0)
        self._began = self._clock()
        for cell in damaged:
            named = f"size {cell.size!r}, seed {cell.seed!r}, rate {cell.rate!r}"
            self._note(f"note: the record of {named} is damaged and is not trusted")
        if known:
            self._note(f"{len(known)} cells are kept from before")
        if estimate.most:
            self._note(self._to_come())

    def finished(self, record: Record, estimate: Estimate) -> None:
        before, self._size = self._size, max(self._size, record.cell.size)
        self._trained += record.seconds
        self._left = estimate
        if 0 < before < self._size and not self._console.is_terminal:
            cells, best = self._rows()[before]
            self._note(f"{self._study.model.size_name} {before}: {cells} cells, best rate {best}; {self._to_come()}")
        self._records.append(record)
        if not self._console.is_terminal and self._clock() >= self._said + LINE_EVERY:
            self._note(self._state())

    def _note(self, text: str) -> None:
        """On the table's own console, which makes room for it."""
        self._said = self._clock()
        self._console.print(text, highlight=False, style="dim", soft_wrap=True)

    def _rows(self) -> dict[int, tuple[int, str]]:
        """By size, small ones first: its cells so far, and the best rate as the result will have it."""
        records = sorted(self._records, key=lambda record: record.cell)
        so_far = Results(self._study, tuple(records))
        cells = Counter(record.cell.size for record in records)
        return {size: (count, tuned_text(so_far, size)) for size, count in cells.items()}

    def _picture(self) -> Group:
        table = Table(header_style="bold")
        for column in (self._study.model.size_name, "cells", "best rate"):
            table.add_column(column, justify="right")
        for size, (cells, best) in self._rows().items():
            table.add_row(str(size), str(cells), best)
        return Group(table, self._state())

    def _state(self) -> str:
        return f"{len(self._records)} cells done, {self._to_come()}"

    def _to_come(self) -> str:
        """Cells run beside each other, so how fast they pass is measured; before the first nothing is said of time."""
        pace = (self._clock() - self._began) / self._trained if self._trained else None
        seconds = self._left.seconds
        return left_text(self._left, None if pace is None or seconds is None else seconds * pace)


def left_text(left: Estimate, seconds: float | None) -> str:
    """`about 47 cells to come (20 to 680), about 3 min`.

    Args:
        left: How many cells are still to come.
        seconds: How long they will take, if known.
    """
    bounds = f" ({left.least} to {left.most})" if left.least < left.most else ""
    about = "about " if bounds else ""
    time = "" if seconds is None else f", about {duration_text(round(seconds))}"
    return f"{about}{left.likely} cells to come{bounds}{time}"
