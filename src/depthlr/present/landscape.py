"""The loss landscape: loss against rate, one line for each depth, with its minimum marked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING, Literal

from depthlr.errors import DepthlrError
from depthlr.present.style import (
    SMALL,
    add_legend,
    axes_or_new,
    depth_colours,
    escape_label,
    log_axis,
    right_align,
    set_title,
    text_colour,
    thin_ticks,
)
from depthlr.present.text import loss_label, study_title, tuned_text
from depthlr.study.curves import Curve
from depthlr.study.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SeedStyle = Literal["auto", "lines", "band", "none"]
MANY_SEEDS, MANY_DEPTHS = 8, 10  # beyond, a band and a short legend
TRIANGLE = 0.035  # of the axes' height: a row of diverged cells
STRIP = 0.2  # the most that all of these rows take
SHARED = 0.6  # share of the rates that all seeds must have run for a median
WALL = 1.4  # times the third quartile of all losses above the lowest: where the rise before divergence is cut
LOG_LOSS = 20.0  # the ratio of losses from which the axis is logarithmic


def loss_landscape(results: Results, *, axes: Axes | None = None, seeds: SeedStyle = "auto") -> Axes:
    """Loss against rate for every depth.

    Dots are the optima of seeds, a star is the tuned rate, and triangles are diverged runs. A hollow dot lies at an
    edge of the range of rates and does not count in the tuned rate. The bold line is the median over seeds, if all
    seeds ran most of the rates. It ends where it first leaves the picture, because runs beyond are erratic.

    Args:
        results: The study.
        axes: Where to draw; new axes by default.
        seeds: Draw each seed as a thin line (`lines`) or their range (`band`); `auto` chooses by their number.
    """
    curves = by_size(results)
    axes = axes_or_new(axes)
    depths = labels_of(results)
    colours = depth_colours(axes, [depths[size] for size in curves])
    low, top, log = loss_range([curve for found in curves.values() for curve in found])
    strip = _mark_diverged(axes, curves, {size: colours[depths[size]] for size in curves})
    axes.set(xscale="log", yscale="log" if log else "linear", ylim=_with_strip(low, top, log, strip))

    named = set(thin_ticks([depths[size] for size in curves])) if len(curves) > MANY_DEPTHS else set(depths.values())
    names = dict(zip(curves, right_align([f"{depths[size]:g}" for size in curves]), strict=True))
    for size, found in curves.items():
        colour, best = colours[depths[size]], [curve.optimum for curve in found if curve.optimum]
        middle = median_curve(found, top)
        _draw_seeds(axes, found, colour, seeds, strip, alone=not middle)
        label = f"{names[size]}   {tuned_text(results, size, 'diverged')}"
        if middle:
            drawn = axes.plot(*zip(*middle, strict=True), color=colour, lw=2.2, zorder=3, gid=f"median-{size}")
            _clip(axes, drawn, strip)
        for edge in (False, True):  # hollow where the range of rates cut the optimum off
            dots = [b for b in best if b.at_edge is edge]
            face = axes.get_facecolor() if edge else colour
            where = [b.rate for b in dots], [b.loss for b in dots]
            style = {"ls": "", "marker": "o", "ms": 4, "color": colour, "mfc": face, "zorder": 4}
            axes.plot(*where, **style, gid=f"{'edge-' * edge}optima-{size}")  # type: ignore[arg-type]
        rate = results.tuned_rates.get(size)
        tuned = ([], []) if rate is None else ([rate], [fmean(b.loss for b in results.inside(size))])
        star = {"marker": "*", "ms": 12, "mec": axes.get_facecolor(), "mew": 0.7, "lw": 1.9, "zorder": 6}
        axes.plot(
            *tuned,
            color=colour,
            gid=f"tuned-{size}",
            label=label if depths[size] in named else None,
            **star,  # type: ignore[arg-type]
        )
    log_axis(axes.xaxis)
    if strip:
        axes.set_yticks([tick for tick in axes.get_yticks() if low <= tick <= top])  # none among the triangles
    several = any(len(found) > 1 for found in curves.values())
    marks = "● a seed’s best, ★ their mean" if several else "★ the best"
    axes.set(xlabel=f"learning rate ({marks})", ylabel=loss_label(results))
    over = "effective depth" if results.depths else results.study.model.size_name
    add_legend(axes, title=escape_label(f"{over}, tuned rate"))
    set_title(axes, study_title(results))
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


def median_curve(curves: Sequence[Curve], top: float) -> list[tuple[float, float]]:
    """Rate and median loss where every seed ran; empty if the seeds share too few rates."""
    losses: dict[float, list[float]] = {}
    for curve in curves:
        for rate, loss in zip(curve.rates, curve.losses, strict=True):
            losses.setdefault(rate, []).append(loss)
    whole = {rate: median(losses[rate]) for rate in sorted(losses) if len(losses[rate]) == len(curves)}
    if len(whole) < max(2, SHARED * len(losses)):
        return []
    best = min(whole, key=lambda rate: whole[rate])
    beyond = [rate for rate in whole if rate > best and whole[rate] > top]
    last = beyond[0] if beyond else math.inf
    return [(rate, loss) for rate, loss in whole.items() if rate <= last and math.isfinite(loss)]


def loss_range(curves: Sequence[Curve]) -> tuple[float, float, bool]:
    """Lowest and highest loss to show, and whether on a log axis. The steep rise before divergence is cut off."""
    losses = sorted(loss for curve in curves for loss in curve.losses if math.isfinite(loss))
    if not losses:
        return 0.0, 1.0, False
    low, high = losses[0], losses[-1]
    if len(losses) > 1:
        usual = quantiles(losses, n=4, method="inclusive")[2]
        best = max(curve.optimum.loss for curve in curves if curve.optimum)
        left = max(max(curve.losses[: curve.optimum.index + 1]) for curve in curves if curve.optimum)
        ends = (low + WALL * (usual - low), best + 0.3 * (best - low), min(left, low + 4 * (usual - low)))
        high = min(high, max(ends))
    log = low > 0 and high / low > LOG_LOSS
    if high <= low:
        return low - 0.05 * (abs(low) or 1), low + 0.05 * (abs(low) or 1), False
    pad = 0.05 * (math.log10(high / low) if log else high - low)
    return (low / 10**pad, high, True) if log else (low - pad, high, False)


def _draw_seeds(axes: Axes, curves: Sequence[Curve], colour: str, how: SeedStyle, strip: float, *, alone: bool) -> None:
    if how == "auto":
        how = "lines" if len(curves) <= MANY_SEEDS else "band"
    line = {"lw": 1.4, "alpha": 0.8} if alone else {"lw": 0.9, "alpha": 0.5}
    if how == "lines":
        for curve in curves:
            losses = [loss if math.isfinite(loss) else math.nan for loss in curve.losses]
            _clip(axes, axes.plot(curve.rates, losses, color=colour, zorder=2, **line), strip)  # type: ignore[arg-type]
    elif how == "band":
        found: dict[float, list[float]] = {}
        for curve in curves:
            for rate, loss in zip(curve.rates, curve.losses, strict=True):
                if math.isfinite(loss):
                    found.setdefault(rate, []).append(loss)
        rates = sorted(found)
        low, high = [min(found[rate]) for rate in rates], [max(found[rate]) for rate in rates]
        _clip(axes, [axes.fill_between(rates, low, high, color=colour, alpha=0.18, lw=0, zorder=1)], strip)


def _mark_diverged(axes: Axes, curves: Mapping[int, Sequence[Curve]], colours: Mapping[int, str]) -> float:
    """Open triangles along the top edge, one row for each depth; returns the share of the height they take."""
    diverged: dict[int, list[float]] = {}
    for size, found in curves.items():
        cells = [cell for curve in found for cell in zip(curve.rates, curve.losses, strict=True)]
        diverged[size] = sorted({rate for rate, loss in cells if math.isinf(loss)})
    rows = [size for size in curves if diverged[size]]
    if not rows:
        return 0.0
    step = min(TRIANGLE, STRIP / len(rows))
    for row, size in enumerate(rows):
        axes.plot(
            diverged[size],
            [1 - (row + 0.5) * step] * len(diverged[size]),
            transform=axes.get_xaxis_transform(),  # rates across, share of the height up
            ls="",
            marker="^",
            ms=min(5.0, 130 * step),
            mfc="none",
            mec=colours[size],
            mew=0.9,
            zorder=5,
            gid=f"diverged-{size}",
        )
    strip = step * len(rows) + 0.01
    axes.plot([0, 1], [1 - strip] * 2, transform=axes.transAxes, color=text_colour(axes), lw=0.6, alpha=0.4)
    axes.text(
        0.008, 1 - strip / 2, "diverged", transform=axes.transAxes, va="center", fontsize=SMALL, color=text_colour(axes)
    )
    return strip


def _with_strip(low: float, top: float, log: bool, strip: float) -> tuple[float, float]:
    """Limits of the loss axis that leave the strip of triangles free at the top."""
    if log:
        return low, low * 10 ** (math.log10(top / low) * 1.03 / (1 - strip))
    return low, low + (top - low) * 1.03 / (1 - strip)


def _clip(axes: Axes, artists: Sequence[object], strip: float) -> None:
    """Clip lines below the strip of triangles."""
    from matplotlib.artist import Artist
    from matplotlib.patches import Rectangle

    for artist in artists:
        assert isinstance(artist, Artist)
        artist.set_clip_path(Rectangle((0, 0), 1, 1 - strip, transform=axes.transAxes))
