"""The scaling plot: tuned rate against depth, with the fit, the law and other rules' rates. And these rules' errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from depthlr.energy.persistent import PersistentEnergy, rate_over_draws
from depthlr.errors import DepthlrError
from depthlr.law.fit import Fit, Point, slope_text
from depthlr.law.rules import transfer_by_power
from depthlr.present.findings import seed_point
from depthlr.present.style import (
    MARKERS,
    SMALL,
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
    text_colour,
)
from depthlr.present.text import lossless_text, study_title
from depthlr.study.curves import RETRY
from depthlr.study.results import Over, Results
from depthlr.trace.depth import Depth
from depthlr.transfer.recipe import Energies, MeasuredModel, ModelLike, Recipe
from depthlr.transfer.rules import make_rule

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAD = 0.12  # decades of margin
Predict = Callable[[float, float], float]  # the rate at a target depth, from the tuned one at a source depth
Errors = dict[str, dict[tuple[float, float], float]]  # log10(predicted / tuned) by rule, source and target
MEDIAN_OF_NORMAL = 0.6745  # median of |z| for a standard normal z
ByPair = Mapping[tuple[float, float], float]
SPREAD = 0.3  # of a row's height, to either side
MANY = 60  # dots; a row of more draws them smaller


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
    ends = [(point.depth, 10**point.log10_rate) for point in points] + edges
    depths = [depth for depth, _ in ends]
    drawn = [rate for _, rate in ends]
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
        mend = f"{RETRY} trains the failed cells again" if results.failures else "lower search.low"
        raise DepthlrError(
            f"Every run of the study {lossless_text(results.curves)}, so there is no tuned rate to plot: {mend}."
        )
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


def tuned_by_depth(results: Results, over: Over = "depth") -> dict[float, float]:
    """The tuned rate at every depth that has one.

    Args:
        results: The study.
        over: Effective depth, or the size that the study varies.
    """
    places = depths_by_size(results, over)
    return {places[size]: rate for size, rate in results.tuned_rates.items()}


def depths_by_size(results: Results, over: Over) -> Mapping[int, float]:
    """The coordinate of each size on the depth axis: its effective depth, or the size itself.

    Args:
        results: The study.
        over: Effective depth, or the size that the study varies.
    """
    if over == "size":
        return {size: size for size in results.study.model.sizes}
    if over != "depth":
        raise DepthlrError(f"A study is plotted over size or depth, not {over!r}: choose one of them.")
    if results.depths is None or not {curve.size for curve in results.curves} <= set(results.depths):
        raise DepthlrError("The effective depth of some size is not known: plot over size.")
    return results.depths


def predictions(
    results: Results,
    rules: Sequence[str] = ("copy", "law"),
    energies: Mapping[float, Energies | PersistentEnergy] | None = None,
    over: Over = "depth",
) -> dict[str, Predict]:
    """Each rule as a function that predicts the rate at a target depth from the tuned rate at a source depth.

    Args:
        results: The study; the source depth must have a tuned rate.
        rules: Names of rules that need depths only.
        energies: By depth. They add a rule: `measured` for persistent energies, `am-mup` for update energies.
        over: Effective depth, or the size that the study varies.
    """
    tuned, optimizer = tuned_by_depth(results, over), results.study.training.optimizer

    def by_rule(name: str, models: Mapping[float, ModelLike] | None = None) -> Predict:
        rule = make_rule(name)

        def predict(source: float, target: float) -> float:
            ends = (source, target) if models is None else (models[source], models[target])
            return rule.carry(tuned[source], *(Recipe(end, optimizer=optimizer) for end in ends)).rate

        return predict

    found = {rule: by_rule(rule) for rule in rules}
    measured: dict[float, ModelLike] = {}
    for depth, energy in (energies or {}).items():
        if isinstance(energy, PersistentEnergy):
            measured[depth] = MeasuredModel(Depth(int(depth), int(depth)), rate_over_draws([energy]))
        else:
            measured[depth] = energy
    if measured:
        persistent = any(isinstance(model, MeasuredModel) for model in measured.values())
        rule = "measured" if persistent else "am-mup"
        found[rule] = by_rule(rule, measured)
    return found


def errors_by_rule(
    results: Results,
    rules: Sequence[str] = ("copy", "law"),
    energies: Mapping[float, Energies | PersistentEnergy] | None = None,
    over: Over = "depth",
) -> Errors:
    """log10(predicted / tuned) of each rule, from every depth to every deeper one; arguments as for `predictions`."""
    tuned = tuned_by_depth(results, over)
    pairs = [(source, target) for source in tuned for target in tuned if source < target]
    errors: Errors = {}
    for rule, predict in predictions(results, rules, energies, over).items():
        errors[rule] = {(a, b): math.log10(predict(a, b) / tuned[b]) for a, b in pairs}
    return errors


def seed_floor(results: Results) -> float | None:
    """The median error of a perfect rule, in decades, because tuned rates are means of few seeds.

    Each end of a transfer has the standard error sd / sqrt(seeds). The median of a normal error is 0.67 of its standard
    deviation. None if every depth has a single seed.

    Args:
        results: The study.
    """
    variances = []
    for optima in map(results.inside, results.tuned_rates):
        if len(optima) > 1:
            variances.append(stdev(math.log10(found.rate) for found in optima) ** 2 / len(optima))
    return MEDIAN_OF_NORMAL * math.sqrt(2 * fmean(variances)) if variances else None


def transfer_error(
    errors: Mapping[str, ByPair | Sequence[float]], *, axes: Axes | None = None, floor: float | None = None
) -> Axes:
    """|log10(carried / tuned)| by rule, in decades, best rule first. Dots are transfers, and bars are medians.

    Args:
        errors: Signed errors by rule, by (source, target) depth or as a list. The dot of a rate too low is hollow.
        axes: Where to draw; new axes by default.
        floor: The median error that the seeds alone would cause (`seed_floor`).
    """
    rows: dict[str, list[float]] = {}
    for rule, found in errors.items():
        if found:
            rows[rule] = list(found.values() if isinstance(found, Mapping) else found)
    if not rows:
        raise DepthlrError("There are no transfers to plot: tune a rate at two depths or more.")
    axes = axes_or_new(axes)
    page, ink = axes.get_facecolor(), text_colour(axes)
    middles = {rule: median(map(abs, row)) for rule, row in rows.items()}
    order = sorted(middles, key=lambda rule: -middles[rule])
    for height, (rule, colour) in enumerate(zip(order, category_colours(axes, len(order)), strict=True)):
        middle = [middles[rule]] * 2
        axes.plot(middle, [height - 0.4, height + 0.4], color=ink, lw=1.8, zorder=4, gid=f"median-{rule}")
        dotted = [(error, height + _jitter(index)) for index, error in enumerate(rows[rule])]
        high = [(error, up) for error, up in dotted if error >= 0]
        low = [(-error, up) for error, up in dotted if error < 0]
        dots: dict[str, Any] = {"ms": 4.5 if len(rows[rule]) <= MANY else 3, "zorder": 3, "gid": f"errors-{rule}"}
        draw_points(axes, high, colour, mfc=colour, mec=page, mew=0.7, **dots)
        draw_points(axes, low, colour, mfc=page, mec=colour, mew=1.2, **dots)
        axes.annotate(
            f"{middles[rule]:.2f}",
            (middles[rule], height + 0.4),
            textcoords="offset points",
            xytext=(0, 1),
            ha="center",
            va="bottom",
            bbox={"facecolor": page, "edgecolor": "none", "pad": 0.5},
            fontsize=SMALL,
            color=ink,
        )
    if floor is not None:
        axes.axvline(floor, color=ink, lw=1, ls="--", gid="floor", label=f"seeds alone: {floor:.2f}")
    draw_points(axes, [], ink, ms=4.5, label="too high a rate")
    draw_points(axes, [], ink, ms=4.5, mfc="none", label="too low a rate")
    axes.set_yticks(range(len(order)), labels=[escape_label(rule) for rule in order])
    axes.set(xlim=(0, None), ylim=(-0.6, len(order) - 0.25), ylabel="rule")
    axes.set_xlabel("error of the carried rate, |log10| (decades; 0.30 is a factor of 2)")
    axes.grid(visible=False, axis="y")
    add_legend(axes, "below", columns=3)
    return axes


def _jitter(index: int) -> float:
    """Heights that fill a row evenly and are the same each time: multiples of the golden ratio."""
    return SPREAD * (2 * ((index * 0.618034 + 0.5) % 1) - 1)
