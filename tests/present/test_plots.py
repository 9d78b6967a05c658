"""What the plots show, read back from the axes: no picture is compared."""

from __future__ import annotations

import builtins
import math
import re
from dataclasses import replace

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex, to_rgb
from tests.present.made_results import energies_falling, energy_of, made_landscape, results_of

from depthlr.energy import PersistentEnergy
from depthlr.errors import DepthlrError
from depthlr.formatting import number_text
from depthlr.law import fit_power_law
from depthlr.present import (
    depth_check,
    energy_profile,
    errors_by_rule,
    loss_landscape,
    scaling,
    seed_floor,
    style,
    transfer_error,
    verdict,
)
from depthlr.present.energy_plots import depth_fits
from depthlr.present.findings import seed_interval
from depthlr.present.scaling import tuned_by_depth
from depthlr.present.style import depth_axis

INF = math.inf
V = {1e-3: 2.0, 1e-2: 1.0, 1e-1: 1.5, 1.0: INF}


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def by_gid(axes, pattern):
    return {a.get_gid(): a for a in axes.get_children() if a.get_gid() and re.fullmatch(pattern, a.get_gid())}


def everything(results):
    """Every plot there is, drawn."""
    energies = energies_falling(-1.5)
    return [
        loss_landscape(results),
        scaling(results),
        energy_profile(energies),
        transfer_error(errors_by_rule(results), floor=seed_floor(results)),
        depth_check(energies),
    ]


def test_every_plot_draws_labels_its_axes_and_returns_them():
    for axes in everything(made_landscape()):
        axes.figure.canvas.draw()
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        assert axes.get_legend() is not None


def test_plots_draw_on_given_axes_and_make_no_figure_of_their_own():
    figure, (left, right) = plt.subplots(1, 2)
    assert loss_landscape(made_landscape(), axes=left) is left
    assert scaling(made_landscape(), axes=right) is right
    assert plt.get_fignums() == [figure.number]


def test_nothing_is_left_behind_in_the_settings():
    before = dict(matplotlib.rcParams)
    everything(made_landscape())
    with style(dark=True, transparent=True):
        everything(made_landscape())
    with pytest.raises(RuntimeError), style():
        raise RuntimeError
    assert dict(matplotlib.rcParams) == before


def luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(one, two):
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_lines_and_words_stand_out_from_the_page(dark):
    with style(dark=dark):
        drawn = everything(made_landscape())
    for axes in drawn:  # drawn after the style has ended: nothing may fall back to the default ink
        axes.figure.canvas.draw()
        page = to_hex(axes.get_facecolor())
        words = [*axes.get_xticklabels(), *axes.get_yticklabels(), *axes.texts, *axes.get_legend().get_texts()]
        words += [axes.xaxis.label, axes.yaxis.label, axes.get_legend().get_title(), axes.title]
        assert all(contrast(text.get_color(), page) > 7 for text in words)
        assert all(contrast(line.get_color(), page) > 1.7 for line in axes.get_lines())


def test_the_marked_minima_are_the_results_optima():
    results = made_landscape()
    axes = loss_landscape(results)
    for size in results.study.model.sizes:
        found = [c.optimum for c in results.curves if c.size == size]
        dots = by_gid(axes, rf"optima-{size}")[f"optima-{size}"]
        inside = [(o.rate, o.loss) for o in found if not o.at_edge]
        assert sorted(zip(*dots.get_data(), strict=True)) == sorted(inside)
        star = by_gid(axes, rf"tuned-{size}")[f"tuned-{size}"]
        assert star.get_xdata() == pytest.approx([10 ** np.mean([math.log10(rate) for rate, _ in inside])])


def test_diverged_cells_stand_above_the_axes_and_every_line():
    results = made_landscape()
    axes = loss_landscape(results)
    axes.figure.canvas.draw()
    frame = axes.get_window_extent()
    triangles = by_gid(axes, r"diverged-\d+")
    lowest = math.inf
    for size in results.study.model.sizes:
        rates = sorted({r.cell.rate for r in results.records if r.cell.size == size and r.diverged})
        drawn = triangles[f"diverged-{size}"]
        assert list(drawn.get_xdata()) == rates
        assert drawn.get_markerfacecolor() == "none"
        heights = drawn.get_transform().transform(np.column_stack(drawn.get_data()))[:, 1]
        share = (heights - frame.y0) / frame.height
        assert (share > 1).all()
        assert (share < 1.25).all()
        lowest = min(lowest, share.min())
    for line in by_gid(axes, r"median-\d+").values():
        top = line.get_clip_box().y1
        assert (top - frame.y0) / frame.height < lowest
    optima = [dot for line in by_gid(axes, r"optima-\d+").values() for dot in line.get_ydata()]
    assert axes.get_ylim()[0] < min(optima) <= max(optima) < axes.get_ylim()[1]


def test_an_optimum_at_the_edge_of_the_range_is_hollow():
    axes = loss_landscape(results_of({(3, 0): {1e-4: 1.0, 1e-3: 2.0}, (6, 0): V}))
    (dots,) = by_gid(axes, "edge-optima-3").values()
    assert list(dots.get_xdata()) == [1e-4]
    assert dots.get_markerfacecolor() != dots.get_color()
    (edges,) = by_gid(scaling(results_of({(3, 0): {1e-4: 1.0, 1e-3: 2.0}, (6, 0): V})), "edges").values()
    assert list(edges.get_xdata()) == [4]


def test_deeper_lines_are_lighter_in_even_steps_of_log_depth():
    results = results_of({(size, 0): V for size in (3, 7, 15)})  # depths 4, 8, 16
    lines = by_gid(loss_landscape(results), r"tuned-\d+")
    shades = [luminance(lines[f"tuned-{size}"].get_color()) for size in (3, 7, 15)]
    assert shades == sorted(shades)
    assert len(set(shades)) == 3


@pytest.mark.parametrize("seeds", ["auto", "lines", "band"])
@pytest.mark.parametrize(
    "losses",
    [
        {(3, 0): V},  # one depth, one seed
        {(3, 0): {1e-2: 1.0}},  # one cell
        {(3, 0): V, (6, 0): {1e-2: INF, 1e-1: INF}},  # a depth of which every run diverged
        {(3, k): {1e-2 * (k + 1): 1.0} for k in range(12)},  # seeds that share no rate
        {(3, 0): {1e-3: 2.0, 1e-2: 1e-4, 1e-1: 900.0}},  # losses over many decades
        {(3, 0): {1e-3: 0.0, 1e-2: 0.0}},
        {(size, k): V for size in range(1, 25) for k in range(2)},
    ],
)
def test_odd_results_are_drawn(losses, seeds):
    results = results_of(losses)
    axes = loss_landscape(results, seeds=seeds)
    axes.figure.canvas.draw()
    assert len(by_gid(axes, r"tuned-\d+")) == len({size for size, _ in losses})
    scaling(results).figure.canvas.draw()
    low, high = axes.get_ylim()
    assert -INF < low < high < INF


def test_all_diverged_is_still_a_landscape_but_no_scaling():
    results = results_of({(3, 0): {1e-2: INF, 1e-1: INF}})
    axes = loss_landscape(results)
    axes.figure.canvas.draw()
    assert list(by_gid(axes, "diverged-3")["diverged-3"].get_xdata()) == [1e-2, 1e-1]
    with pytest.raises(DepthlrError, match="diverged"):
        scaling(results)


def test_no_cells_is_a_sentence():
    empty = replace(made_landscape(), records=())
    for draw in (loss_landscape, scaling):
        with pytest.raises(DepthlrError):
            draw(empty)


def test_a_study_without_counted_depths_is_plotted_over_its_sizes():
    results = replace(made_landscape(), depths=None)
    assert "layers" in loss_landscape(results).get_legend().get_title().get_text()
    assert scaling(results, "size").get_xlabel() == "layers"
    with pytest.raises(DepthlrError, match="plot over size"):
        scaling(results)


def test_a_size_that_has_not_begun_is_in_nobodys_way():
    """Tables hold the depths of sizes that were run."""
    whole = made_landscape()
    largest = max(whole.study.model.sizes)
    records = tuple(record for record in whole.records if record.cell.size < largest)
    part = replace(whole, records=records, depths={s: d for s, d in whole.depths.items() if s < largest})
    assert "depth" in loss_landscape(part).get_legend().get_title().get_text()
    assert set(tuned_by_depth(part)) == set(part.depths.values())
    scaling(part)


def test_points_lie_at_the_mean_of_log_rates_with_students_interval():
    results = made_landscape()
    axes = scaling(results)
    (points,) = by_gid(axes, "tuned").values()
    fit = results.fit("depth")
    assert list(points.get_xdata()) == [p.depth for p in fit.points]
    assert points.get_ydata() == pytest.approx([10**p.log10_rate for p in fit.points])
    for point in fit.points:
        low, high = (math.log10(end) for end in seed_interval(point))
        assert (low + high) / 2 == pytest.approx(point.log10_rate)
        assert (high - low) / 2 == pytest.approx(4.302653 * point.sd / math.sqrt(3), rel=1e-6)
    agreed = replace(fit.points[0], sd=0.0)
    low, high = (math.log10(end) for end in seed_interval(agreed, spacing=0.1))
    assert high - low == pytest.approx(0.1)
    assert seed_interval(replace(agreed, sd=None, observations=1)) is None


def test_the_laws_line_has_its_slope_and_crosses_the_fit_amid_the_depths():
    axes = scaling(made_landscape())
    (law,), (fit,) = by_gid(axes, "law").values(), by_gid(axes, "fit").values()
    x, y = np.log10(law.get_data())
    assert np.polyfit(x, y, 1)[0] == pytest.approx(-1.5)
    difference = y - np.log10(fit.get_ydata())
    assert difference[0] * difference[-1] < 0
    assert "slope" in fit.get_label()
    assert "95 %" in fit.get_label()
    assert not by_gid(scaling(fit_power_law([4, 8], [1.0, 0.5])), "band")


def test_the_law_goes_through_the_only_point_there_is():
    (law,) = by_gid(scaling(results_of({(3, 0): V})), "law").values()
    x, y = law.get_data()
    assert y == pytest.approx(1e-2 * (np.array(x) / 4) ** -1.5)


def test_rules_start_at_the_tuned_rate_of_their_source():
    results = made_landscape()
    tuned = tuned_by_depth(results)
    energies = {depth: energy_of([float(depth) ** 2] * 3, 1.0) for depth in tuned}
    axes = scaling(results, rules=["copy", "law"], source=7, energies=energies)
    lines = by_gid(axes, r"rule-.*")
    persistent = {depth: PersistentEnergy(float(depth), float(depth), 1.0, 1.0, 16) for depth in tuned}
    lines |= by_gid(scaling(results, source=7, energies=persistent), r"rule-.*")
    assert set(lines) == {"rule-copy", "rule-law", "rule-am-mup", "rule-measured"}
    for name, power in (("copy", 0), ("law", -1.5), ("am-mup", -1), ("measured", -0.5)):
        wanted = [tuned[7] * (depth / 7) ** power for depth in tuned]
        assert lines[f"rule-{name}"].get_ydata() == pytest.approx(wanted)
    with pytest.raises(DepthlrError, match="a tuned rate at depth 8"):
        scaling(results, rules=["copy"], source=8)


def test_an_optimum_at_the_edge_is_no_tuned_rate_for_a_star_or_a_rule():
    low = {1e-4: 1.0, 1e-3: 2.0, 1e-2: 3.0}  # cut off by the range
    axes = loss_landscape(results_of({(3, 0): low, (6, 0): V, (6, 1): low}))
    stars = {gid: list(star.get_xdata()) for gid, star in by_gid(axes, r"tuned-\d").items()}
    assert stars == {"tuned-3": [], "tuned-6": pytest.approx([1e-2])}
    assert [text.get_text().split(maxsplit=1)[1] for text in axes.get_legend().get_texts()] == ["at edge", "1.00e-2"]
    results = results_of({(3, 0): low, (6, 0): V, (12, 0): V})
    (copied,) = by_gid(scaling(results, rules=["copy"]), "rule-copy").values()
    assert copied.get_label() == "copy from 7"
    assert list(copied.get_ydata()) == pytest.approx([1e-2] * 3)
    with pytest.raises(DepthlrError, match=r"a tuned rate at depth 4 to start from: choose from \[7, 13\]"):
        scaling(results, rules=["copy"], source=4)
    with pytest.raises(DepthlrError, match="No rule has a tuned rate"):
        scaling(results_of({(3, 0): low}), rules=["copy"])


def test_errors_are_signed_decades_to_every_deeper_model():
    results = results_of({(size, 0): {r: abs(math.log10(r * size)) for r in (1e-3, 1e-2, 1e-1)} for size in (9, 99)})
    errors = errors_by_rule(results)
    assert errors["copy"] == pytest.approx({(10, 100): 1.0})  # tuned 0.1 and 0.01
    assert errors["law"] == pytest.approx({(10, 100): -0.5})
    assert seed_floor(results) is None


def test_the_floor_is_the_median_error_of_a_perfect_rule():
    rng = np.random.default_rng(0)
    sd, seeds = 0.2, 3
    one, two = rng.normal(scale=sd, size=(2, 20000, seeds)).mean(-1)
    logs = np.array([-1, 0, 1]) * sd  # whose sample deviation is sd
    grid = {
        (s, k): {10**log: 1.0, 10 ** (log + 1): 2.0, 10 ** (log - 1): 2.0} for s in (3, 6) for k, log in enumerate(logs)
    }
    assert seed_floor(results_of(grid)) == pytest.approx(np.median(np.abs(one - two)), rel=0.03)


def test_transfer_errors_show_the_best_rule_on_top_with_its_median():
    axes = transfer_error({"copy": [0.5, -0.7, 0.9], "law": {(4, 8): -0.1, (4, 16): 0.2}}, floor=0.05)
    assert [t.get_text() for t in axes.get_yticklabels()] == ["copy", "law"]  # bottom first
    assert by_gid(axes, "median-copy")["median-copy"].get_xdata() == pytest.approx([0.7, 0.7])
    assert by_gid(axes, "median-law")["median-law"].get_xdata() == pytest.approx([0.15, 0.15])
    dots = [x for a in axes.get_lines() if a.get_gid() == "errors-copy" for x in a.get_xdata()]
    assert sorted(dots) == [0.5, 0.7, 0.9]
    assert by_gid(axes, "floor")
    with pytest.raises(DepthlrError, match="no transfers"):
        transfer_error({"copy": []})


def test_an_energy_profile_runs_to_the_readout_at_one():
    axes = energy_profile({4: energy_of([1.0, 2.0, 4.0, 8.0], 9.0), 2: energy_of([1.0, 0.0], 5.0)})
    lines = by_gid(axes, r"energy-.*")
    assert list(lines["energy-4"].get_xdata()) == [0.25, 0.5, 0.75, 1.0]
    assert list(lines["energy-4"].get_ydata()) == [1, 2, 4, 8]
    assert list(lines["energy-2"].get_xdata()) == [0.5]  # a unit that does not move has no place on a log axis
    (star,) = by_gid(axes, "readout-4").values()
    assert star.get_data() == ([1], [9.0])
    with pytest.raises(DepthlrError, match="no energies"):
        energy_profile({})


def test_an_energy_profile_takes_labels_as_they_are():
    axes = energy_profile({"_pre $x_{$": energy_of([1.0, 2.0], 3.0), "post": energy_of([2.0, 2.0], 3.0)})
    axes.figure.canvas.draw()  # broken mathematics would raise
    assert len(axes.get_legend().get_texts()) == 2


@pytest.mark.parametrize(("slope", "scatter"), [(-1.5, 0.02), (-0.7, 0.02), (-1.5, 0.9)])
def test_the_verdict_stands_on_the_depth_check(slope, scatter):
    energies = energies_falling(slope, scatter=scatter)
    axes = depth_check(energies)
    said = axes.get_title(loc="left").replace("\n", " ")
    assert said == verdict(depth_fits(energies)["mean energy"])
    (mean,), (readout,) = by_gid(axes, "mean-energy").values(), by_gid(axes, "readout-energy").values()
    assert mean.get_ydata() == pytest.approx([depth**slope for depth in energies])
    assert readout.get_ydata() == pytest.approx([depth**slope / math.sqrt(3) for depth in energies])
    for points in (mean, readout):  # beside each other, near their depth
        assert points.get_xdata() == pytest.approx(list(energies), rel=0.02)
    assert (np.array(mean.get_xdata()) < readout.get_xdata()).all()


def inside(text, axes):
    """Does the picture hold all of a text?"""
    box, page = text.get_window_extent(), axes.figure.bbox
    return page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1


@pytest.mark.parametrize(("slope", "scatter"), [(-1.5, 0.02), (-0.7, 0.02), (-2.5, 0.02), (-1.5, 0.9)])
def test_no_word_leaves_the_picture(slope, scatter):
    results = made_landscape()
    energies = energies_falling(slope, scatter=scatter)
    drawn = [*everything(results), depth_check(energies), scaling(results, rules=["copy", "law", "u-mup"])]
    for axes in drawn:
        axes.figure.canvas.draw()
        words = [axes.xaxis.label, axes.yaxis.label, axes.title, axes._left_title, *axes.get_legend().get_texts()]
        for text in words:
            assert not text.get_text() or inside(text, axes), text.get_text()


def test_numbers_stand_below_each_other_in_a_legend():
    results = results_of({(size, 0): V for size in (3, 15, 120)})
    labels = [text.get_text() for text in loss_landscape(results).get_legend().get_texts()]
    assert len({len(label) for label in labels}) == 1
    assert [label.split()[0] for label in labels] == ["4", "16", "121"]


def test_a_median_is_seen_however_many_dots_there_are():
    axes = transfer_error({"copy": list(np.linspace(-1, 1, 300))})
    (median,) = by_gid(axes, "median-copy").values()
    dots = [line for line in axes.get_lines() if line.get_gid() == "errors-copy"]
    assert all(median.get_zorder() > line.get_zorder() for line in dots)
    assert contrast(median.get_color(), axes.get_facecolor()) > 7


def test_a_depth_check_needs_two_depths_and_steps_that_move_something():
    with pytest.raises(DepthlrError, match="two depths"):
        depth_check({4: energy_of([1.0, 2.0], 3.0)})
    with pytest.raises(DepthlrError, match="mean energy 0"):
        depth_check({2: energy_of([0.0, 1.0], 3.0), 3: energy_of([1.0, 1.0, 1.0], 3.0)})
    pair = {2: energy_of([1.0, 1.0], 3.0), 3: energy_of([2.0, 2.0, 1.0], 3.0)}
    two = depth_check(pair)
    assert "Undecided: the slope has no interval" in two.get_title(loc="left")


def test_without_matplotlib_a_plot_is_one_sentence(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(DepthlrError, match=re.escape('pip install "depthlr[plots]"')):
        loss_landscape(made_landscape(sizes=(3,), points=6))


def test_ticks_are_few_and_read_as_people_write_them():
    values = (1e-4, 2e-3, 0.05, 0, 1, 1000, 1234.5, 1e5, 2.34e-6)
    texts = ["1e-4", "0.002", "0.05", "0", "1", "1000", "1234", "1e5", "2.34e-6"]
    assert [number_text(value) for value in values] == texts
    axes = plt.subplots()[1]
    axes.set_xscale("log")
    depth_axis(axes.xaxis, range(3, 60))
    shown = axes.xaxis.get_major_locator()()
    assert shown[0] == 3
    assert len(shown) <= 13
