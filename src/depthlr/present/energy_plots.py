"""Plots of measured energies: the energy at every unit, and the rate for energy 1 against depth."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from itertools import cycle
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from depthlr.energy.energy import Energy
from depthlr.errors import DepthlrError
from depthlr.formatting import number_text
from depthlr.law.fit import Fit, fit_power_law, slope_text
from depthlr.present.findings import verdict
from depthlr.present.style import (
    MARKERS,
    add_legend,
    axes_or_new,
    category_colours,
    depth_axis,
    depth_colours,
    draw_fit,
    draw_intervals,
    draw_law,
    draw_points,
    escape_label,
    log_axis,
    right_align,
    set_title,
)
from depthlr.transfer.recipe import Energies

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OFFSET = 1.012  # factor between neighbouring points of one depth, so that intervals do not hide each other
LINE = 68  # characters of the verdict that fit above the axes


def energy_profile(energies: Mapping[float | str, Energies], *, axes: Axes | None = None) -> Axes:
    """Energy of each unit at rate 1, from the input (0) to the readout (1, a star).

    Lines are medians over seeds, and bands are their quartiles.

    Args:
        energies: By depth, which gives colours along a scale, or by label, which gives colours of categories.
        axes: Where to draw; new axes by default.
    """
    if not energies:
        raise DepthlrError("There are no energies to plot: measure a model with update_energy first.")
    axes = axes_or_new(axes)
    axes.set_yscale("log")
    numbers = [key for key in energies if isinstance(key, int | float)]
    colours: Mapping[Any, str] = dict(zip(energies, category_colours(axes, len(energies)), strict=True))
    title, names = "model, mean energy", list(map(escape_label, energies))
    if len(numbers) == len(energies):
        colours, title = depth_colours(axes, numbers), "effective depth, mean energy"
        names = [f"{depth:g}" for depth in numbers]
    for name, marker, (key, measured) in zip(right_align(names), cycle(MARKERS), energies.items(), strict=False):
        seeds = energies_of(measured)
        depth = len(measured.units)
        across, quartiles = [], []
        for unit in range(depth):
            values = [e.units[unit].energy for e in seeds if e.units[unit].energy > 0]
            if values:  # energy 0 has no logarithm
                across.append((unit + 1) / depth)
                quartiles.append(np.quantile(values, (0.25, 0.5, 0.75)))
        low, middle, high = np.reshape(quartiles, (-1, 3)).T
        label = f"{name}   {number_text(median(e.mean for e in seeds))}"
        gid = f"energy-{key}"
        axes.plot(across, middle, color=colours[key], lw=1.5, marker=marker, ms=3.5, label=label, gid=gid)
        if len(seeds) > 1:
            axes.fill_between(across, low, high, color=colours[key], alpha=0.13, lw=0)
        readout = median(e.readout for e in seeds)
        if readout > 0:
            star = {"marker": "*", "ms": 13, "mec": axes.get_facecolor(), "mew": 0.7, "zorder": 5}
            draw_points(axes, [(1, readout)], colours[key], clip_on=False, gid=f"readout-{key}", **star)
    axes.set(
        xlim=(0, 1.0),
        xlabel="relative depth (unit / effective depth; ★ readout)",
        ylabel="update energy at rate 1 (mean square change)",
    )
    log_axis(axes.yaxis)
    add_legend(axes, title=title)
    return axes


def energies_of(measured: Energies) -> tuple[Energy, ...]:
    """The energies of all seeds."""
    return (measured,) if isinstance(measured, Energy) else measured.energies


def depth_fits(energies: Mapping[float, Energies], persistent: Fit | None = None) -> dict[str, Fit]:
    """Fit the rates for energy 1 of all seeds over effective depth, by the name of the energy.

    The first fit judges the law: that of persistent energy if it was measured, otherwise of mean energy.

    Args:
        energies: By effective depth.
        persistent: The fit of rates for persistent energy 1 at the same depths.
    """
    if len(energies) < 2:
        raise DepthlrError("A slope needs the energies of models at two depths or more: measure another depth.")
    places, mean, readout = [], [], []
    for depth, measured in energies.items():
        for energy in energies_of(measured):
            places.append(depth)
            mean.append(energy.mean)
            readout.append(energy.readout)
    fits = {} if persistent is None else {"persistent energy": persistent}
    for name, values in (("mean energy", mean), ("readout energy", readout)):
        if min(values) <= 0:
            raise DepthlrError(f"Some model has {name} 0, which no rate makes 1: leave it out.")
        fits[name] = fit_power_law(places, [value**-0.5 for value in values])  # rate^2 S(1) = 1
    return fits


def depth_check(energies: Mapping[float, Energies], *, persistent: Fit | None = None, axes: Axes | None = None) -> Axes:
    """Rates for energy 1 against effective depth, with their slopes, the law, and the verdict as the title.

    Args:
        energies: By effective depth.
        persistent: The fit of rates for persistent energy 1 at the same depths (a `TransferCheck` has it).
        axes: Where to draw; new axes by default.
    """
    fits = depth_fits(energies, persistent)
    judged = next(iter(fits.values()))
    axes = axes_or_new(axes)
    axes.set(xscale="log", yscale="log")
    depths = sorted(energies)
    reach = np.geomspace(depths[0] / 1.08, depths[-1] * 1.08, 60).tolist()
    shown: list[float] = []
    for index, (name, fit) in enumerate(fits.items()):
        colour = category_colours(axes, len(fits))[index]
        points = {point.depth * OFFSET ** (2 * index - len(fits) + 1): point for point in fit.points}
        places = [(place, 10**point.log10_rate) for place, point in points.items()]
        label = f"{name}: {slope_text(fit)}"
        draw_points(axes, places, colour, marker=MARKERS[index], ms=5.5, label=label, gid=name.replace(" ", "-"))
        shown += [rate for _, rate in places]
        shown += draw_intervals(axes, points, colour)
        shown += draw_fit(axes, fit, reach, colour, lw=1.5)
    shown += draw_law(axes, reach, [judged.by_law(depth) for depth in reach])
    axes.set(
        xlim=(reach[0], reach[-1]),
        ylim=(min(shown) / 1.3, max(shown) * 1.3),
        xlabel="effective depth (units)",
        ylabel="learning rate for energy 1 (95 % intervals)",
    )
    depth_axis(axes.xaxis, depths)
    log_axis(axes.yaxis)
    add_legend(axes, "below", columns=1)
    set_title(axes, textwrap.fill(verdict(judged), LINE), bold=True)
    return axes
