"""The loss landscape: loss against rate, one line for each depth, with its minimum marked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

import numpy as np

from depthlr.errors import DepthlrError
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
from depthlr.present.text import loss_label, study_title, tuned_text
from depthlr.study.curves import Curve
from depthlr.study.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SeedStyle = Literal["auto", "lines", "band"]
MANY_SEEDS, MANY_DEPTHS = 8, 10  # beyond, a band and a short legend
TRIANGLE = 0.035  # of the axes' height: a row of diverged cells above them
STRIP = 0.2  # the most that all of these rows take
SHARED = 0.6  # share of the rates that all seeds must have run for a median
WALL = 1.4  # times the third quartile of all losses above the lowest: where the rise before divergence is cut
LOG_LOSS = 20.0  # the ratio of losses from which the axis is logarithmic


def loss_landscape(
    results: Results, *, axes: Axes | None = None, seeds: SeedStyle = "auto", title: str | None = None
) -> Axes:
    """Loss against rate for every depth.

    Dots are the optima of seeds, a star is the tuned rate, and triangles are diverged runs. A hollow dot lies at an
    edge of the range of rates and does not count in the tuned rate. The bold line is the median over seeds, if all
    seeds ran most of the rates. It ends where it first leaves the picture, because runs beyond are erratic.

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
        label = f"{names[size]}   {tuned_text(results, size, 'diverged')}" if size in named else None
        _draw_optima(axes, results, size, colours[size], label)
    strip = _mark_diverged(axes, curves, colours)
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
    run = {curve.size for curve in results.curves}
    known = results.depths or {}
    if run <= set(known):
        return known
    return {size: size for size in run}


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
        known = {rate: [loss for loss in losses if loss < math.inf] for rate, losses in losses_by_rate(curves).items()}
        known = {rate: losses for rate, losses in known.items() if losses}
        low, high = [min(losses) for losses in known.values()], [max(losses) for losses in known.values()]
        axes.fill_between(list(known), low, high, color=colour, alpha=0.18, lw=0, zorder=1)
        return
    width, alpha = (1.4, 0.8) if alone else (0.9, 0.5)
    for curve in curves:
        finite = np.where(np.isinf(curve.losses), math.nan, curve.losses)  # a gap where it diverged
        axes.plot(curve.rates, finite, color=colour, zorder=2, lw=width, alpha=alpha)


def _mark_diverged(axes: Axes, curves: Mapping[int, Sequence[Curve]], colours: Mapping[int, str]) -> float:
    """Open triangles above the axes, a row a depth, shallow ones on top; returns the share of the height they take."""
    diverged: dict[int, list[float]] = {}
    for size, found in curves.items():
        rates = [rate for rate, losses in losses_by_rate(found).items() if math.inf in losses]
        if rates:
            diverged[size] = rates
    step = min(TRIANGLE, STRIP / max(1, len(diverged)))
    look = {"marker": "^", "ms": min(5.0, 130 * step), "mfc": "none", "mew": 0.9, "clip_on": False}
    for row, (size, rates) in enumerate(reversed(diverged.items())):
        places = [(rate, 1 + (row + 0.5) * step) for rate in rates]
        across = axes.get_xaxis_transform()  # rates across, share of the height up
        draw_points(axes, places, colours[size], transform=across, gid=f"diverged-{size}", **look)
    if diverged:
        ink, middle = text_colour(axes), 1 + step * len(diverged) / 2
        axes.text(0, middle, "diverged", transform=axes.transAxes, va="center", fontsize=SMALL, color=ink)
    return step * len(diverged)
