"""A sweep as it goes, on stderr: the best rate of every size so far, and what is still to come."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.table import Table

from depthlr.cli.output import LINE_EVERY, PlainConsole
from depthlr.present.text import duration_text, tuned_text
from depthlr.study.description import Study
from depthlr.study.record import Record
from depthlr.study.results import Results
from depthlr.study.search import Estimate, Progress
from depthlr.training.cell import Cell


class SweepProgress(Progress):
    """A table that grows in a terminal; elsewhere a line at the start, one a finished size and one a minute."""

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    def begins(self, known: Sequence[Record], damaged: Sequence[Cell], estimate: Estimate) -> None:
        self._records = list(known)
        self._size = max((record.cell.size for record in known), default=0)
        self._left = estimate
        self._began = self._clock()
        for cell in damaged:
            self._note(
                f"note: the record of size {cell.size!r}, seed {cell.seed!r}, rate {cell.rate!r} is damaged and is not "
                "trusted"
            )
        if known:
            self._note(f"{len(known)} cells are kept from before")
        if estimate.most:
            self._note(self._to_come(estimate))

    def finished(self, record: Record, estimate: Estimate) -> None:
        before, self._size = self._size, max(self._size, record.cell.size)
        self._trained += record.seconds
        if before and record.cell.size > before and not self._console.is_terminal:
            cells, best = self._rows()[before]
            row = f"{self._study.model.size_name} {before}: {cells} cells, best rate {best}"
            self._note(f"{row}; {self._to_come(estimate)}")
        self._records.append(record)
        self._left = estimate
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
        return f"{len(self._records)} cells done, {self._to_come(self._left)}"

    def _to_come(self, left: Estimate) -> str:
        """Cells run beside each other, so how fast they pass is measured; before the first nothing is said of time."""
        pace = (self._clock() - self._began) / self._trained if self._trained else None
        return left_text(left, None if pace is None or left.seconds is None else left.seconds * pace)


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
