"""The energy profile: update energy at every unit across relative depth, for several models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median, quantiles
from typing import TYPE_CHECKING

from depthlr.energy.energy import Energy
from depthlr.errors import DepthlrError
from depthlr.law.numbers import number_text
from depthlr.present.style import (
    MARKERS,
    add_legend,
    axes_or_new,
    category_colours,
    depth_colours,
    lined_up,
    log_axis,
    plain,
)
from depthlr.transfer.rules import Energies

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def energy_profile(energies: Mapping[float | str, Energies], *, axes: Axes | None = None) -> Axes:
    """Energy of each unit at rate 1, from the input (0) to the readout (1, a star).

    Keys are depths, coloured along a scale, or labels, coloured as categories. Lines are medians over seeds, bands
    their middle halves.
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
    names = lined_up([plain(f"{key:g}" if isinstance(key, int | float) else key) for key in energies])
    for index, (key, measured) in enumerate(energies.items()):
        seeds = energies_of(measured)
        depth = len(measured.units)
        across = [(unit + 1) / depth for unit in range(depth)]
        values = [[e.units[unit].energy for e in seeds if e.units[unit].energy > 0] for unit in range(depth)]
        drawn = [(x, v) for x, v in zip(across, values, strict=True) if v]  # a unit that does not move has no log
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
    """One energy a seed."""
    return (measured,) if isinstance(measured, Energy) else measured.energies
