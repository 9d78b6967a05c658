"""The scaling plot: tuned rate against depth, log-log, with the fitted line, the law, and other rules' rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from depthlr.energy.persistent import PersistentEnergy
from depthlr.errors import DepthlrError
from depthlr.law.fit import Fit, Point, slope_text
from depthlr.law.rules import transfer_by_power
from depthlr.present.findings import seed_point
from depthlr.present.style import (
    MARKERS,
    add_legend,
    axes_or_new,
    category_colours,
    depth_axis,
    draw_fit,
    draw_intervals,
    draw_law,
    draw_points,
    escape_label,
    log_axis,
    set_title,
)
from depthlr.present.text import study_title
from depthlr.present.transfer_error import Predict, depths_by_size, predictions, tuned_by_depth
from depthlr.study.results import Over, Results
from depthlr.transfer.recipe import Energies

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAD = 0.12  # decades of margin


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
    fit, points, edges, spacing = _fit_points(results, over)
    depths = [point.depth for point in points] + [depth for depth, _ in edges]
    drawn = [10**point.log10_rate for point in points] + [rate for _, rate in edges]
    axes.set(xscale="log", yscale="log")

    colour, *others = category_colours(axes, 8)
    reach = np.geomspace(min(depths) / 1.08, max(depths) * 1.08, 60).tolist()
    if fit is not None:
        label = f"fit: {slope_text(fit)}{fit.r2_text}"
        drawn += draw_fit(axes, fit, reach, colour, lw=1.8, label=label, gid="fit")
        drawn += draw_law(axes, reach, [fit.by_law(depth) for depth in reach])
    elif points:
        rate, depth = 10 ** points[0].log10_rate, points[0].depth
        drawn += draw_law(axes, reach, [transfer_by_power(rate, depth, other) for other in reach])
    drawn += _draw_tuned(axes, points, edges, spacing, colour)
    sizes = "size"
    if isinstance(results, Results):
        sizes = escape_label(results.study.model.size_name)
        set_title(axes, study_title(results))
        if rules or energies:
            tuned = tuned_by_depth(results, over)
            start = min(tuned, default=None) if source is None else source
            if start not in tuned:
                raise DepthlrError(f"No rule has a tuned rate at depth {start} to start from: choose from {[*tuned]}.")
            predicted = predictions(results, rules, energies, over)
            drawn += _draw_rules(axes, predicted, start, sorted(set(depths)), others)
    elif rules or energies:
        raise DepthlrError("Other rules start from a study's tuned rates: pass its Results, not a Fit.")

    axes.set_ylim(min(drawn) / 10**PAD, max(drawn) * 10**PAD)
    axes.set_xlim(reach[0], reach[-1])
    depth_axis(axes.xaxis, depths)
    log_axis(axes.yaxis)
    axes.set(xlabel="effective depth (units)" if over == "depth" else sizes, ylabel="tuned learning rate")
    add_legend(axes, "below", columns=2 if rules or energies else 1)
    return axes


def _fit_points(
    results: Results | Fit, over: Over
) -> tuple[Fit | None, Sequence[Point], list[tuple[float, float]], float | None]:
    """The fit, its points, the optima at an edge of the range as (depth, rate), and the step of the grid in decades."""
    if isinstance(results, Fit):
        return results, results.points, [], None
    if not results.records:
        raise DepthlrError("The study has no finished cell yet: run the sweep, then plot it.")
    places = depths_by_size(results, over)
    bounds = [(curve.size, curve.optimum.rate) for curve in results.curves if curve.optimum and curve.optimum.at_edge]
    edges = [(float(places[size]), rate) for size, rate in bounds]
    points = []
    for size in results.tuned_rates:
        points.append(seed_point(places[size], [optimum.rate for optimum in results.inside(size)]))
    if not points and not edges:
        raise DepthlrError("Every run of the study diverged, so there is no tuned rate to plot: lower search.low.")
    fit = results.fit(over) if len(points) > 1 else None
    return fit, fit.points if fit else points, edges, results.study.search.spacing


def _draw_tuned(
    axes: Axes, points: Sequence[Point], edges: Sequence[tuple[float, float]], spacing: float | None, colour: str
) -> list[float]:
    """Draw tuned rates with their intervals; returns the rates that the axis must include."""
    seeds = max((point.observations for point in points), default=0)
    label = f"tuned rate, mean of {seeds} seeds, 95 % interval" if seeds > 1 else "tuned rate, one seed"
    if points:
        places = [(point.depth, 10**point.log10_rate) for point in points]
        draw_points(axes, places, colour, ms=6, zorder=4, label=label, gid="tuned")
    if edges:
        label = "at the edge of the range, not fitted"
        draw_points(axes, edges, colour, ms=6, mfc="none", zorder=4, label=label, gid="edges")
    return draw_intervals(axes, {point.depth: point for point in points}, colour, spacing)


def _draw_rules(
    axes: Axes, predicted: Mapping[str, Predict], start: float, depths: Sequence[float], colours: Sequence[str]
) -> list[float]:
    """Draw the rates that rules predict from the one tuned at a depth; returns them."""
    shown = []
    for index, (rule, predict) in enumerate(predicted.items()):
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
