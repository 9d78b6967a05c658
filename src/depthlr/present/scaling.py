"""The scaling plot: tuned rate against depth, log-log, with the fitted line, the law, and other rules' rates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import numpy as np

from depthlr.energy.persistent import PersistentEnergy
from depthlr.errors import DepthlrError
from depthlr.law.fit import Fit, Point, slope_text
from depthlr.law.rules import transfer_by_power
from depthlr.present.findings import seed_interval
from depthlr.present.style import (
    LAW_LABEL,
    MARKERS,
    add_legend,
    axes_or_new,
    category_colours,
    depth_axis,
    draw_interval,
    escape_label,
    log_axis,
    set_title,
    text_colour,
)
from depthlr.present.text import study_title
from depthlr.present.transfer_error import optima_by_depth, predictions, tuned_by_depth
from depthlr.study.results import Over, Results
from depthlr.transfer.recipe import Energies

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAD = 0.12  # decades of margin
INTERVAL_REACH = 0.8  # decades: a longer interval is cut by the picture


def scaling(
    results: Results | Fit,
    over: Over = "depth",
    *,
    axes: Axes | None = None,
    rules: Sequence[str] = (),
    source: float | None = None,
    energies: Mapping[float, Energies | PersistentEnergy] | None = None,
) -> Axes:
    """Tuned rate against depth, with 95 % intervals over seeds, the fit and its band, and the law's -3/2.

    Hollow points lie at an edge of the range of rates: they are not fitted, and no rule starts from them.

    Args:
        results: A study, or a fit.
        over: Effective depth, or the size that the study varies.
        axes: Where to draw; new axes by default.
        rules: Also draw the rates that these rules predict from the rate tuned at `source`.
        source: A depth with a tuned rate; the shallowest by default.
        energies: By depth. They add a rule: `measured` for persistent energies, `am-mup` for update energies.
    """
    axes = axes_or_new(axes)
    if isinstance(results, Fit) and (rules or energies):
        raise DepthlrError("Other rules start from a study's tuned rates: pass its Results, not a Fit.")
    fit, points, edges = (results, results.points, {}) if isinstance(results, Fit) else _fit_points(results, over)
    spacing = None if isinstance(results, Fit) else results.study.search.spacing
    drawn = [*(10**p.log10_rate for p in points), *(rate for rates in edges.values() for rate in rates)]
    depths = [*(p.depth for p in points), *edges]
    if isinstance(results, Results) and not results.records:
        raise DepthlrError("The study has no finished cell yet: run the sweep, then plot it.")
    if not drawn:
        raise DepthlrError("Every run of the study diverged, so there is no tuned rate to plot: lower search.low.")
    axes.set(xscale="log", yscale="log")

    colour, other, *more = category_colours(axes, 8)
    reach = np.geomspace(min(depths) / 1.08, max(depths) * 1.08, 60)
    if fit is not None:
        rates = np.array([fit.predict(depth) for depth in reach])
        axes.plot(reach, rates, color=colour, lw=1.8, label=f"fit: {slope_text(fit)}{fit.r2_text}", gid="fit")
        sides = fit.band(list(reach))
        if sides is not None:
            axes.fill_between(reach, *sides, color=colour, alpha=0.13, lw=0, gid="band")
        drawn += [rates[0], rates[-1]]
    law = [_by_law(points, fit, depth) for depth in reach] if points else []
    if law:
        axes.plot(reach, law, color=text_colour(axes), lw=1.3, ls="--", label=LAW_LABEL, gid="law")
        drawn += [law[0], law[-1]]
    drawn += _draw_points(axes, points, edges, spacing, colour)
    if isinstance(results, Results) and (rules or energies):
        drawn += _draw_rules(axes, results, over, rules, source, energies, [other, *more])

    axes.set_ylim(min(drawn) / 10**PAD, max(drawn) * 10**PAD)
    axes.set_xlim(reach[0], reach[-1])
    depth_axis(axes.xaxis, depths)
    log_axis(axes.yaxis)
    sizes = escape_label(results.study.model.size_name) if isinstance(results, Results) else "size"
    axes.set(xlabel="effective depth (units)" if over == "depth" else sizes, ylabel="tuned learning rate")
    add_legend(axes, "below", columns=2 if rules or energies else 1)
    if isinstance(results, Results):
        set_title(axes, study_title(results))
    return axes


def _fit_points(results: Results, over: Over) -> tuple[Fit | None, tuple[Point, ...], dict[float, tuple[float, ...]]]:
    """The fit, its points, and by depth the optima at an edge of the range of rates."""
    found = optima_by_depth(results, over)
    edges = {depth: optima.at_edge for depth, optima in found.items() if optima.at_edge}
    inside = {depth: optima.inside for depth, optima in found.items() if optima.inside}
    if len(inside) > 1:
        fit = results.fit(over)
        return fit, fit.points, edges
    return None, tuple(_point(depth, rates) for depth, rates in inside.items()), edges


def _point(depth: float, rates: Sequence[float]) -> Point:
    logs = [math.log10(rate) for rate in rates]
    return Point(depth, fmean(logs), stdev(logs) if len(logs) > 1 else None, len(logs))


def _by_law(points: Sequence[Point], fit: Fit | None, depth: float) -> float:
    """The law's rate at a depth, through the centre of the fit or through the only point."""
    if fit is not None:
        return fit.by_law(depth)
    return transfer_by_power(10 ** points[0].log10_rate, points[0].depth, depth)


def _draw_points(
    axes: Axes,
    points: Sequence[Point],
    edges: Mapping[float, Sequence[float]],
    spacing: float | None,
    colour: str,
) -> list[float]:
    """Draw points with intervals; returns the rates that the axis must include."""
    shown: list[float] = []
    for point in points:
        ends = seed_interval(point, spacing)
        if ends is not None:
            draw_interval(axes, point.depth, ends, colour)
            rate = 10**point.log10_rate
            shown += [max(ends[0], rate / 10**INTERVAL_REACH), min(ends[1], rate * 10**INTERVAL_REACH)]
    seeds = max((point.observations for point in points), default=0)
    label = f"tuned rate, mean of {seeds} seeds, 95 % interval" if seeds > 1 else "tuned rate, one seed"
    where = [point.depth for point in points], [10**point.log10_rate for point in points]
    if points:
        axes.plot(*where, ls="", marker="o", ms=6, color=colour, zorder=4, label=label, gid="tuned")
    if edges:
        pairs = [(depth, rate) for depth, rates in edges.items() for rate in rates]
        axes.plot(
            *zip(*pairs, strict=True),
            ls="",
            marker="o",
            ms=6,
            mfc="none",
            mec=colour,
            zorder=4,
            label="at the edge of the range, not fitted",
            gid="edges",
        )
    return shown


def _draw_rules(
    axes: Axes,
    results: Results,
    over: Over,
    rules: Sequence[str],
    source: float | None,
    energies: Mapping[float, Energies | PersistentEnergy] | None,
    colours: Sequence[str],
) -> list[float]:
    depths, tuned = list(optima_by_depth(results, over)), list(tuned_by_depth(results, over))
    if not tuned:
        raise DepthlrError("No optimum lies inside the range of rates, so no rule has one to start from: widen it.")
    start = tuned[0] if source is None else source
    if start not in tuned:
        raise DepthlrError(f"No rate was tuned at depth {start:g}: take a source from {', '.join(map(str, tuned))}.")
    shown = []
    for index, (rule, predict) in enumerate(predictions(results, rules, energies, over).items()):
        rates = [predict(start, depth) for depth in depths]
        shown += rates
        axes.plot(
            depths,
            rates,
            color=colours[index % len(colours)],
            lw=1,
            ls=":",
            marker=MARKERS[1 + index % (len(MARKERS) - 1)],
            ms=5,
            mfc=axes.get_facecolor(),  # hides the interval's bar behind it
            zorder=5,
            markevery=[depth != start for depth in depths],  # the tuned rate itself is drawn there
            label=escape_label(f"{rule} from {start:g}"),
            gid=f"rule-{rule}",
        )
    return shown
