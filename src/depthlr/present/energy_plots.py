"""Plots of measured energies: the energy at every unit, and the rate for energy 1 against depth."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TYPE_CHECKING

import numpy as np

from depthlr.energy.energy import Energy
from depthlr.errors import DepthlrError
from depthlr.formatting import number_text
from depthlr.law.fit import Fit, fit_power_law, slope_text
from depthlr.present.findings import seed_interval, verdict
from depthlr.present.style import (
    LAW_LABEL,
    MARKERS,
    add_legend,
    axes_or_new,
    category_colours,
    depth_axis,
    depth_colours,
    draw_interval,
    escape_label,
    log_axis,
    right_align,
    set_title,
    text_colour,
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
    if len(numbers) == len(energies):
        by_depth = depth_colours(axes, numbers)
        colours: dict[float | str, str] = {key: by_depth[key] for key in numbers}
    else:
        colours = dict(zip(energies, category_colours(axes, len(energies)), strict=True))
    names = right_align([escape_label(f"{key:g}" if isinstance(key, int | float) else key) for key in energies])
    for index, (key, measured) in enumerate(energies.items()):
        seeds = energies_of(measured)
        depth = len(measured.units)
        across = [(unit + 1) / depth for unit in range(depth)]
        values = [[e.units[unit].energy for e in seeds if e.units[unit].energy > 0] for unit in range(depth)]
        drawn = [(x, v) for x, v in zip(across, values, strict=True) if v]  # energy 0 has no logarithm
        mean = median(e.mean for e in seeds)
        axes.plot(
            [x for x, _ in drawn],
            [median(v) for _, v in drawn],
            color=colours[key],
            lw=1.5,
            marker=MARKERS[index % len(MARKERS)],
            ms=3.5,
            label=f"{names[index]}   {number_text(mean)}",
            gid=f"energy-{key}",
        )
        if len(seeds) > 1:
            halves = [middle_half(v) for _, v in drawn]
            low, high = [first for first, _ in halves], [third for _, third in halves]
            axes.fill_between([x for x, _ in drawn], low, high, color=colours[key], alpha=0.13, lw=0)
        readout = median(e.readout for e in seeds)
        if readout > 0:
            star = {"ls": "", "marker": "*", "ms": 13, "mec": axes.get_facecolor(), "mew": 0.7, "zorder": 5}
            axes.plot([1], [readout], color=colours[key], clip_on=False, gid=f"readout-{key}", **star)  # type: ignore[arg-type]
    axes.set(
        xlim=(0, 1.0),
        xlabel="relative depth (unit / effective depth; ★ readout)",
        ylabel="update energy at rate 1 (mean square change)",
    )
    log_axis(axes.yaxis)
    title = "effective depth, mean energy" if len(numbers) == len(energies) else "model, mean energy"
    add_legend(axes, title=title)
    return axes


def middle_half(values: Sequence[float]) -> tuple[float, float]:
    """First and third quartile."""
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = quantiles(values, n=4, method="inclusive")
    return first, third


def energies_of(measured: Energies) -> tuple[Energy, ...]:
    """The energies of all seeds."""
    return (measured,) if isinstance(measured, Energy) else measured.energies


@dataclass(frozen=True)
class DepthCheck:
    """Fits of the rate for energy 1 over depth: of mean and readout energy, and of persistent energy if measured."""

    mean: Fit
    readout: Fit
    persistent: Fit | None = None

    @property
    def verdict(self) -> str:
        """Whether the law holds, by persistent energy if measured, otherwise by mean energy."""
        return verdict(self.persistent or self.mean)

    @property
    def fits(self) -> dict[str, Fit]:
        """All fits, by the name of the energy."""
        fits = {"mean energy": self.mean, "readout energy": self.readout}
        if self.persistent is None:
            return fits
        return {"persistent energy": self.persistent, **fits}


def check_of(energies: Mapping[float, Energies], persistent: Fit | None = None) -> DepthCheck:
    """Fit the rates for energy 1 of all seeds over effective depth.

    Args:
        energies: By effective depth.
        persistent: The fit of rates for persistent energy 1 at the same depths.
    """
    if len(energies) < 2:
        raise DepthlrError("A slope needs the energies of models at two depths or more: measure another depth.")
    if persistent is not None and [point.depth for point in persistent.points] != sorted(energies):
        raise DepthlrError("The fit of persistent energies is of other depths than these: measure both on one set.")
    places = [depth for depth, measured in energies.items() for _ in energies_of(measured)]
    seeds = [energy for measured in energies.values() for energy in energies_of(measured)]
    fits: list[Fit] = []
    for name, values in (("unit", [e.mean for e in seeds]), ("readout", [e.readout for e in seeds])):
        if min(values) <= 0:
            raise DepthlrError(f"The step of some model moves no {name}, so no rate gives it energy 1: leave it out.")
        fits.append(fit_power_law(places, [value**-0.5 for value in values]))  # rate^2 S(1) = 1
    return DepthCheck(fits[0], fits[1], persistent)


def depth_check(energies: Mapping[float, Energies], *, persistent: Fit | None = None, axes: Axes | None = None) -> Axes:
    """Rates for energy 1 against effective depth, with their slopes, the law, and the verdict as the title.

    Args:
        energies: By effective depth.
        persistent: The fit of rates for persistent energy 1 at the same depths (a `TransferCheck` has it).
        axes: Where to draw; new axes by default.
    """
    found = check_of(energies, persistent)
    axes = axes_or_new(axes)
    axes.set(xscale="log", yscale="log")
    depths = sorted(energies)
    reach = np.geomspace(depths[0] / 1.08, depths[-1] * 1.08, 60)
    shown: list[float] = []
    fits = found.fits
    colours = category_colours(axes, len(fits))
    for index, (name, fit) in enumerate(fits.items()):
        rates = np.array([fit.predict(depth) for depth in reach])
        points = [10**point.log10_rate for point in fit.points]
        style = {"color": colours[index], "marker": MARKERS[index], "ms": 5.5, "ls": ""}
        places = [depth * OFFSET ** (2 * index - len(fits) + 1) for depth in depths]
        axes.plot(places, points, **style, label=f"{name}: {slope_text(fit)}", gid=name.replace(" ", "-"))  # type: ignore[arg-type]
        for place, point in zip(places, fit.points, strict=True):
            ends = seed_interval(point)
            if ends is not None:
                draw_interval(axes, place, ends, colours[index])
                shown += [max(ends[0], points[-1] / 10), min(ends[1], points[0] * 10)]
        axes.plot(reach, rates, color=colours[index], lw=1.5)
        sides = fit.band(list(reach))
        if sides is not None:
            axes.fill_between(reach, *sides, color=colours[index], alpha=0.13, lw=0)
        shown += [*points, rates[0], rates[-1]]
    law = [(persistent or found.mean).by_law(depth) for depth in reach]
    axes.plot(reach, law, color=text_colour(axes), lw=1.3, ls="--", label=LAW_LABEL, gid="law")
    shown += [law[0], law[-1]]
    axes.set(
        xlim=(reach[0], reach[-1]),
        ylim=(min(shown) / 1.3, max(shown) * 1.3),
        xlabel="effective depth (units)",
        ylabel="learning rate for energy 1 (95 % intervals)",
    )
    depth_axis(axes.xaxis, depths)
    log_axis(axes.yaxis)
    add_legend(axes, "below", columns=1)
    set_title(axes, textwrap.fill(found.verdict, LINE), bold=True)
    return axes
