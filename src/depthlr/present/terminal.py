"""The loss landscape as text, for the end of a sweep: one row for each depth, the loss as blocks of eight heights."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    columns = columns_for(results, width - left - len("    best rate"))
    excess = {size: losses_by_rate(found, above_best=True) for size, found in curves.items()}
    full = full_height([value for found in excess.values() for values in found.values() for value in values])
    lines = [f"{name:>{left}}  {'loss against rate':<{columns.count * columns.wide}}  best rate"]
    for size in curves:
        row = columns.row(excess[size], full, results.tuned_rates.get(size))
        lines.append(f"{labels[size]:>{left}}  {row}  {tuned_text(results, size)}")
    lines.append(" " * (left + 2) + columns.ticks())
    above = f"{HEIGHTS[0]} the seed's best loss, {HEIGHTS[-1]} {number_text(full, 2)} or more above it, "
    key = f"{above if full > 0 else ''}{DIVERGED} diverged, {BEST} best rate"
    return "\n".join([*lines, *textwrap.wrap(key, width)])


@dataclass(frozen=True)
class Columns:
    """Blocks of columns, evenly over the logarithm of the rates that were run. Rates share one if there is no room."""

    low: float  # log10 of the lowest rate
    high: float
    count: int
    wide: int  # columns of a block

    def at(self, rate: float) -> int:
        """The block of a rate."""
        return round((math.log10(rate) - self.low) / ((self.high - self.low) or 1) * (self.count - 1))

    def row(self, excess: Mapping[float, Sequence[float]], full: float, tuned: float | None) -> str:
        """The blocks of one depth."""
        found: dict[int, list[float]] = {}
        for rate, values in excess.items():
            found.setdefault(self.at(rate), []).extend(values)
        row = "".join(block(found.get(place), full) * self.wide for place in range(self.count))
        if tuned is None:
            return row
        middle = self.at(tuned) * self.wide + (self.wide - 1) // 2
        return row[:middle] + BEST + row[middle + 1 :]

    def ticks(self) -> str:
        """Labels of the decades that do not overlap, or of the first rate if there is no decade."""
        decades = range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)
        line = ""
        for log in decades or [self.low]:
            place, text = self.at(10**log) * self.wide, f"╵{number_text(10**log, 2)}"
            if place >= len(line) + bool(line) and place + len(text) <= self.count * self.wide + SPARE:
                line = f"{line:<{place}}{text}"
        return line


def columns_for(results: Results, room: int) -> Columns:
    """Columns for the rates of a study that were run.

    Args:
        results: The study.
        room: The most columns of text.
    """
    rates = [record.cell.rate for record in results.records]
    low, high = math.log10(min(rates)), math.log10(max(rates))
    count = min(room, round((high - low) / results.study.search.spacing) + 1)
    return Columns(low, high, count, room // count)


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
