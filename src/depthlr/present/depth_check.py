"""The depth check: does the rate for energy 1 fall with depth as the law says? The verdict stands on the plot."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from depthlr.errors import DepthlrError
from depthlr.law.fit import Fit, fit_power_law
from depthlr.present.energy_profile import energies_of
from depthlr.present.intervals import seed_interval
from depthlr.present.numbers import slope_text
from depthlr.present.style import (
    LAW_LABEL,
    MARKERS,
    add_legend,
    axes_or_new,
    category_colours,
    depth_axis,
    draw_interval,
    ink,
    log_axis,
    set_title,
)
from depthlr.present.verdict import verdict
from depthlr.transfer.carry import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ASIDE = 1.012  # how far a point stands beside its depth, so that the two intervals do not hide each other
LINE = 68  # characters of the verdict that fit above the axes


@dataclass(frozen=True)
class DepthCheck:
    """How the rates for mean energy 1 and readout energy 1 fall with depth."""

    mean: Fit
    readout: Fit

    @property
    def verdict(self) -> str:
        """What to do with the law, by the mean energy, which is what it is about."""
        return verdict(self.mean)


def check_of(energies: Mapping[float, Measured]) -> DepthCheck:
    """Fits to the rates for energy 1 of every seed, by effective depth."""
    if len(energies) < 2:
        raise DepthlrError("A slope needs the energies of models at two depths or more: measure another depth.")
    places = [depth for depth, measured in energies.items() for _ in energies_of(measured)]
    seeds = [energy for measured in energies.values() for energy in energies_of(measured)]
    fits = []
    for name, values in (("unit", [e.mean for e in seeds]), ("readout", [e.readout for e in seeds])):
        if min(values) <= 0:
            raise DepthlrError(f"The step of some model moves no {name}, so no rate gives it energy 1: leave it out.")
        fits.append(fit_power_law(places, [value**-0.5 for value in values]))  # rate^2 S(1) = 1
    return DepthCheck(*fits)


def depth_check(energies: Mapping[float, Measured], *, axes: Axes | None = None) -> Axes:
    """Rate for energy 1, in the mean and in the readout, against effective depth, with slopes, the law, the verdict."""
    found = check_of(energies)
    axes = axes_or_new(axes)
    axes.set(xscale="log", yscale="log")
    depths = sorted(energies)
    reach = np.geomspace(depths[0] / 1.08, depths[-1] * 1.08, 60)
    shown: list[float] = []
    colours = category_colours(axes, 2)
    for index, (name, fit) in enumerate((("mean energy", found.mean), ("readout energy", found.readout))):
        rates = np.array([fit.predict(depth) for depth in reach])
        points = [10**point.log10_rate for point in fit.points]
        style = {"color": colours[index], "marker": MARKERS[index], "ms": 5.5, "ls": ""}
        places = [depth * (1 / ASIDE, ASIDE)[index] for depth in depths]
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
    law = [found.mean.by_law(depth) for depth in reach]
    axes.plot(reach, law, color=ink(axes), lw=1.3, ls="--", label=LAW_LABEL, gid="law")
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
