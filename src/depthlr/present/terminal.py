"""The loss landscape as text, for the end of a sweep: one row for each depth, the loss as blocks of eight heights."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from statistics import fmean, quantiles

from depthlr.errors import DepthlrError
from depthlr.formatting import number_text
from depthlr.present.landscape import by_size, labels_of, losses_by_rate
from depthlr.present.text import tuned_text
from depthlr.study.results import Results

HEIGHTS = "▁▂▃▄▅▆▇█"
DIVERGED, BEST, NOT_RUN = "×", "◆", " "
LEAST_WIDTH = 40
MOST_NAME = 16  # columns for the name of what varies
SPARE = 8  # columns to the right of the plot that the label of the last tick may use


def text_landscape(results: Results, width: int = 72) -> str:
    """The loss above the best loss of each seed, over the rates that were run.

    Args:
        results: The study.
        width: The most columns of a line.
    """
    if width < LEAST_WIDTH:
        raise DepthlrError(f"A text plot {width} columns wide shows nothing: give it at least {LEAST_WIDTH}.")
    curves, labels = by_size(results), labels_of(results)
    name = "depth" if results.depths else results.study.model.size_name[:MOST_NAME]
    left = max(len(name), *(len(str(labels[size])) for size in curves))
    columns = Columns(results, width - left - len("    best rate"))
    excess = {size: losses_by_rate(found, above_best=True) for size, found in curves.items()}
    full = full_height([value for found in excess.values() for values in found.values() for value in values])
    lines = [f"{name:>{left}}  {'loss against rate':<{columns.count}}  best rate"]
    for size in curves:
        row = columns.row(excess[size], full, results.tuned_rates.get(size))
        lines.append(f"{labels[size]:>{left}}  {row}  {tuned_text(results, size)}")
    lines.append(" " * (left + 2) + columns.ticks())
    above = f"{HEIGHTS[0]} the seed's best loss, {HEIGHTS[-1]} {number_text(full, 2)} or more above it, "
    key = f"{above if full > 0 else ''}{DIVERGED} diverged, {BEST} best rate"
    return "\n".join([*lines, *textwrap.wrap(key, width)])


class Columns:
    """Maps the rates of the study's grid to columns of text."""

    def __init__(self, results: Results, room: int) -> None:
        search = results.study.search
        self._low, self._spacing = math.log10(search.low), search.spacing
        run = [self._index(record.cell.rate) for record in results.records]
        self._first, self._rates = min(run), max(run) - min(run) + 1
        self._blocks = min(self._rates, room)  # several rates share one where there is no room
        self._wide = room // self._blocks
        self.count = self._blocks * self._wide

    def row(self, excess: Mapping[float, Sequence[float]], full: float, tuned: float | None) -> str:
        """The blocks of one depth."""
        found: dict[int, list[float]] = {}
        for rate, values in excess.items():
            found.setdefault(self._block(self._index(rate)), []).extend(values)
        cells = [block(found.get(place), full) for place in range(self._blocks) for _ in range(self._wide)]
        if tuned is not None:
            cells[self._block(self._index(tuned)) * self._wide + (self._wide - 1) // 2] = BEST
        return "".join(cells)

    def ticks(self) -> str:
        """Labels of the decades that do not overlap, or of the first rate if there is no decade."""
        decades = range(math.ceil(self._log(0) - 1e-9), math.floor(self._log(self._rates - 1) + 1e-9) + 1)
        line = ""
        for rate in [10.0**power for power in decades] or [10 ** self._log(0)]:
            place = self._block(self._index(rate)) * self._wide
            text = f"╵{number_text(rate, 2)}"
            if place >= len(line) + bool(line) and place + len(text) <= self.count + SPARE:
                line = f"{line:<{place}}{text}"
        return line

    def _index(self, rate: float) -> int:
        return round((math.log10(rate) - self._low) / self._spacing)

    def _log(self, place: int) -> float:
        """log10 of the rate with this index among those that were run."""
        return self._low + (self._first + place) * self._spacing

    def _block(self, index: int) -> int:
        return (index - self._first) * self._blocks // self._rates


def full_height(excess: Sequence[float]) -> float:
    """The excess that fills a block, limited because the rise before divergence would flatten the rest."""
    finite = [value for value in excess if math.isfinite(value)]
    if len(finite) < 2:
        return 0.0
    return min(max(finite), 1.5 * quantiles(finite, n=4, method="inclusive")[2])


def block(values: Sequence[float] | None, full: float) -> str:
    """One column: the mean excess over seeds, unless most of them diverged.

    Args:
        values: The excess losses in this column, infinite for diverged runs; None if no rate of it was run.
        full: The excess that fills a block.
    """
    if not values:
        return NOT_RUN
    finite = [value for value in values if math.isfinite(value)]
    if 2 * len(finite) < len(values):
        return DIVERGED
    share = min(1.0, fmean(finite) / full) if full > 0 else 0.0
    return HEIGHTS[round(share * (len(HEIGHTS) - 1))]
