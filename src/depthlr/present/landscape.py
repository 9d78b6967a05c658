"""The loss landscape: loss against rate, one line for each depth, with its minimum marked; as a plot and as text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING, Literal

import numpy as np

from depthlr.errors import DepthlrError
from depthlr.formatting import number_text
from depthlr.present.style import (
    SMALL,
    add_legend,
    axes_or_new,
    depth_colours,
    draw_points,
    escape_label,
    log_axis,
    right_align,
    set_title,
    text_colour,
)
from depthlr.present.text import loss_label, lossless_text, study_title, tuned_text
from depthlr.study.curves import Curve
from depthlr.study.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SeedStyle = Literal["auto", "lines", "band"]
MANY_SEEDS, MANY_DEPTHS = 8, 10  # beyond, a band and a short legend
TRIANGLE = 0.035  # of the axes' height: a row of cells without a loss above them
STRIP = 0.2  # the most that all of these rows take
SHARED = 0.6  # share of the rates that all seeds must have run for a median
WALL = 1.4  # times the third quartile of all losses above the lowest: where the rise before divergence is cut
LOG_LOSS = 20.0  # the ratio of losses from which the axis is logarithmic
# In text:
HEIGHTS = "▁▂▃▄▅▆▇█"
NO_LOSS, BEST, NOT_RUN = "×", "◆", " "
LEAST_WIDTH = 40
MOST_NAME = 16  # columns for the name of what varies
SPARE = 8  # columns to the right of the plot that the label of the last tick may use


def loss_landscape(
    results: Results, *, axes: Axes | None = None, seeds: SeedStyle = "auto", title: str | None = None
) -> Axes:
    """Loss against rate for every depth.

    Dots are the optima of seeds, a star is the tuned rate, and triangles are runs that diverged or failed. A hollow dot
    lies at an edge of the range of rates and does not count in the tuned rate. The bold line is the median over seeds,
    if all seeds ran most of the rates. It ends where it first leaves the picture, because runs beyond are erratic.

    Args:
        results: The study.
        axes: Where to draw; new axes by default.
        seeds: Draw each seed as a thin line (`lines`) or their range (`band`); `auto` chooses by their number.
        title: The title. None names the model and its training.
    """
    curves = by_size(results)
    axes = axes_or_new(axes)
    depths = labels_of(results)
    by_depth = depth_colours(axes, [depths[size] for size in curves])
    colours = {size: by_depth[depths[size]] for size in curves}
    low, top, log = loss_range(results.curves)
    axes.set(xscale="log", yscale="log" if log else "linear", ylim=(low, top))
    named = list(curves)[:: math.ceil(len(curves) / MANY_DEPTHS)]  # of many depths some are in the legend
    names = dict(zip(curves, right_align([f"{depths[size]:g}" for size in curves]), strict=True))
    for size, found in curves.items():
        middle = median_curve(found, top)
        _draw_seeds(axes, found, colours[size], seeds, alone=not middle)
        if middle:
            axes.plot(*zip(*middle, strict=True), color=colours[size], lw=2.2, zorder=3, gid=f"median-{size}")
        label = f"{names[size]}   {tuned_text(results, size, lossless_text(found))}" if size in named else None
        _draw_optima(axes, results, size, colours[size], label)
    strip = _mark_lossless(axes, curves, colours)
    log_axis(axes.xaxis)
    several = any(len(found) > 1 for found in curves.values())
    marks = "● a seed’s best, ★ their mean" if several else "★ the best"
    axes.set(xlabel=f"learning rate ({marks})", ylabel=loss_label(results))
    over = "effective depth" if results.depths else results.study.model.size_name
    add_legend(axes, title=escape_label(f"{over}, tuned rate"))
    set_title(axes, title or study_title(results), above=strip)
    return axes


def by_size(results: Results) -> dict[int, list[Curve]]:
    """The curves of every size, small sizes first."""
    found: dict[int, list[Curve]] = {}
    for curve in results.curves:
        found.setdefault(curve.size, []).append(curve)
    if not found:
        raise DepthlrError("The study has no finished cell yet: run the sweep, then plot it.")
    return {size: found[size] for size in sorted(found)}


def labels_of(results: Results) -> Mapping[int, int]:
    """The label of each size: its effective depth, or the size itself if depths were not counted."""
    return results.depths or {size: size for size in results.study.model.sizes}


def losses_by_rate(curves: Sequence[Curve], *, above_best: bool = False) -> dict[float, list[float]]:
    """The losses of all seeds that ran a rate, small rates first.

    Args:
        curves: The seeds' curves at one size.
        above_best: Subtract the best loss of each seed: differences between seeds would hide the minimum.
    """
    losses: dict[float, list[float]] = {}
    for curve in curves:
        best = curve.optimum.loss if curve.optimum and above_best else 0.0
        for rate, loss in zip(curve.rates, curve.losses, strict=True):
            losses.setdefault(rate, []).append(loss - best)
    return dict(sorted(losses.items()))


def median_curve(curves: Sequence[Curve], top: float) -> list[tuple[float, float]]:
    """Rate and median loss where every seed ran; empty if the seeds share too few rates.

    Args:
        curves: The seeds' curves at one size.
        top: The highest loss to show. The curve ends where it first leaves the picture to the right of its minimum.
    """
    losses = losses_by_rate(curves)
    whole = {rate: median(found) for rate, found in losses.items() if len(found) == len(curves)}
    if len(whole) < max(2, SHARED * len(losses)):
        return []
    best = min(whole, key=lambda rate: whole[rate])
    last = next((rate for rate in whole if rate > best and whole[rate] > top), math.inf)
    return [(rate, loss) for rate, loss in whole.items() if rate <= last and math.isfinite(loss)]


def loss_range(curves: Sequence[Curve]) -> tuple[float, float, bool]:
    """Lowest and highest loss to show, and whether on a log axis. The steep rise before divergence is cut off."""
    losses = sorted(loss for curve in curves for loss in curve.losses if math.isfinite(loss))
    if not losses:
        return 0.0, 1.0, False
    low, high = losses[0], losses[-1]
    usual = float(np.quantile(losses, 0.75))
    best = max(curve.optimum.loss for curve in curves if curve.optimum)
    left = max(max(curve.losses[: curve.optimum.index + 1]) for curve in curves if curve.optimum)
    ends = (low + WALL * (usual - low), best + 0.3 * (best - low), min(left, low + 4 * (usual - low)))
    high = min(high, max(ends))
    if high <= low:
        pad = 0.05 * (abs(low) or 1)
        return low - pad, low + pad, False
    if low > 0 and high / low > LOG_LOSS:
        pad = (high / low) ** 0.05
        return low / pad, high * pad, True
    pad = 0.05 * (high - low)
    return low - pad, high + pad, False


def _draw_optima(axes: Axes, results: Results, size: int, colour: str, label: str | None) -> None:
    """Dots at the seeds' optima, hollow at an edge of the range of rates, and a star at the tuned rate."""
    best = [curve.optimum for curve in results.curves if curve.size == size and curve.optimum]
    inside = [(b.rate, b.loss) for b in best if not b.at_edge]
    at_edge = [(b.rate, b.loss) for b in best if b.at_edge]
    page = axes.get_facecolor()
    draw_points(axes, inside, colour, ms=4, zorder=4, gid=f"optima-{size}")
    draw_points(axes, at_edge, colour, ms=4, mfc=page, zorder=4, gid=f"edge-optima-{size}")
    tuned = []
    if size in results.tuned_rates:
        tuned = [(results.tuned_rates[size], fmean(b.loss for b in results.inside(size)))]
    star = {"ls": "-", "marker": "*", "ms": 12, "mec": page, "mew": 0.7, "lw": 1.9, "zorder": 6}
    draw_points(axes, tuned, colour, gid=f"tuned-{size}", label=label, **star)


def _draw_seeds(axes: Axes, curves: Sequence[Curve], colour: str, how: SeedStyle, *, alone: bool) -> None:
    if how == "band" or (how == "auto" and len(curves) > MANY_SEEDS):
        known = {}
        for rate, losses in losses_by_rate(curves).items():
            if finite_losses := [loss for loss in losses if loss < math.inf]:
                known[rate] = min(finite_losses), max(finite_losses)
        low, high = zip(*known.values(), strict=True) if known else ((), ())
        axes.fill_between(list(known), low, high, color=colour, alpha=0.18, lw=0, zorder=1)
        return
    width, alpha = (1.4, 0.8) if alone else (0.9, 0.5)
    for curve in curves:
        finite = np.where(np.isinf(curve.losses), math.nan, curve.losses)  # a gap where it has no loss
        axes.plot(curve.rates, finite, color=colour, zorder=2, lw=width, alpha=alpha)


def _mark_lossless(axes: Axes, curves: Mapping[int, Sequence[Curve]], colours: Mapping[int, str]) -> float:
    """Open triangles above the axes, a row a depth, shallow ones on top; returns the share of the height they take."""
    lossless: dict[int, list[float]] = {}
    for size, found in curves.items():
        rates = [rate for rate, losses in losses_by_rate(found).items() if math.inf in losses]
        if rates:
            lossless[size] = rates
    step = min(TRIANGLE, STRIP / max(1, len(lossless)))
    look = {"marker": "^", "ms": min(5.0, 130 * step), "mfc": "none", "mew": 0.9, "clip_on": False}
    for row, (size, rates) in enumerate(reversed(lossless.items())):
        places = [(rate, 1 + (row + 0.5) * step) for rate in rates]
        across = axes.get_xaxis_transform()  # rates across, share of the height up
        draw_points(axes, places, colours[size], transform=across, gid=f"diverged-{size}", **look)
    if lossless:
        ink, middle = text_colour(axes), 1 + step * len(lossless) / 2
        words = lossless_text(curve for found in curves.values() for curve in found)
        axes.text(0, middle, words, transform=axes.transAxes, va="center", fontsize=SMALL, color=ink)
    return step * len(lossless)


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
    words = lossless_text(results.curves) or "diverged"
    key = f"{above if full > 0 else ''}{NO_LOSS} {words}, {BEST} best rate"
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
    """One column: the mean excess over seeds, unless most of them have no loss.

    Args:
        values: The excess losses in this column, infinite for runs without a loss; None if no rate of it was run.
        full: The excess that fills a block.
    """
    if not values:
        return NOT_RUN
    finite = [value for value in values if math.isfinite(value)]
    if 2 * len(finite) < len(values):
        return NO_LOSS
    share = min(1.0, fmean(finite) / full) if full > 0 else 0.0
    return HEIGHTS[round(share * (len(HEIGHTS) - 1))]
