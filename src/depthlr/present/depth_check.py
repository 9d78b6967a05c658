"""The depth check: does the rate for energy 1 fall with depth as the law says? The verdict stands on the plot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from depthlr.errors import DepthlrError
from depthlr.law.fit import Fit, fit_power_law
from depthlr.law.power import LAW_EXPONENT
from depthlr.present.energy_profile import energies_of
from depthlr.present.intervals import band, centre, seed_interval
from depthlr.present.numbers import signed, slope_text
from depthlr.present.style import (
    MARKERS,
    add_legend,
    axes_or_new,
    category_colours,
    depth_axis,
    ink,
    log_axis,
)
from depthlr.transfer.carry import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = 1.0  # an interval longer than this cannot tell the law from half a power more or less


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


def verdict(fit: Fit) -> str:
    """One sentence: the law holds, use the measured slope, or nothing is decided."""
    low, high = fit.interval
    if not math.isfinite(high - low):
        return "Undecided: no interval. Add seeds or a third depth."
    if low <= LAW_EXPONENT <= high:
        if high - low > WIDE:
            return f"Undecided: {signed(low)} to {signed(high)} contains −3/2 and much else. Add seeds or depths."
        return f"The law holds: {signed(low)} to {signed(high)} contains −3/2."
    return f"Use the measured slope {signed(fit.slope)} ({signed(low)} to {signed(high)}), not the law's −3/2."


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
        axes.plot(depths, points, **style, label=f"{name}: {slope_text(fit)}", gid=name.replace(" ", "-"))  # type: ignore[arg-type]
        for point in fit.points:
            ends = seed_interval(point)
            if ends is not None:
                axes.plot([point.depth] * 2, ends, color=colours[index], lw=1.4)
                shown += [max(ends[0], points[-1] / 10), min(ends[1], points[0] * 10)]
        axes.plot(reach, rates, color=colours[index], lw=1.5)
        sides = band(fit, list(reach))
        if sides is not None:
            axes.fill_between(reach, *sides, color=colours[index], alpha=0.13, lw=0)
        shown += [*points, rates[0], rates[-1]]
    x = centre(found.mean)[0]
    law = 10 ** (found.mean.intercept + found.mean.slope * x + LAW_EXPONENT * (np.log10(reach) - x))
    axes.plot(reach, law, color=ink(axes), lw=1.3, ls="--", label="law: slope −3/2", gid="law")
    shown += [law[0], law[-1]]
    axes.set(
        xlim=(reach[0], reach[-1]),
        ylim=(min(shown) / 1.3, max(shown) * 1.3),
        xlabel="effective depth (units)",
        ylabel="learning rate for energy 1 (95 % intervals)",
    )
    depth_axis(axes.xaxis, depths)
    log_axis(axes.yaxis)
    add_legend(axes, "below")
    axes.set_title(found.verdict, loc="left", fontsize=10.5, fontweight="bold", color=ink(axes), parse_math=False)
    return axes
