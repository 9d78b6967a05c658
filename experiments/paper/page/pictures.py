"""The paper's figures, drawn from the tables: scaling panels, loss landscapes, PathSum, transfer errors, energies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from io import BytesIO
from statistics import median
from typing import TYPE_CHECKING, Any

from depthlr.law.rules import transfer_by_power
from depthlr.present.landscape import loss_landscape
from depthlr.present.scaling import scaling
from depthlr.present.style import (
    MARKERS,
    SIZE,
    add_legend,
    axes_or_new,
    category_colours,
    depth_axis,
    log_axis,
    pyplot,
    style,
    text_colour,
)
from depthlr.present.transfer_error import transfer_error
from depthlr.study.results import Results
from experiments.paper.page.kept import Energies, Kept, Sweep
from experiments.paper.page.recipe_tables import pathsum_rates
from experiments.paper.page.zero_shot_tables import NAMES, errors
from experiments.paper.recipes import CIFAR10_RESNET, FAMILIES, RECIPES, SCANS, VIT_384_EPOCH_3
from experiments.paper.running.jobs import home
from experiments.paper.settings import Recipe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 3  # panels a row
Panel = Callable[[Any], object]


def pictures(kept: Kept) -> dict[str, list[Panel]]:
    """Panels by the picture's name, `RECIPE` or `RECIPE.KIND`; only what can be drawn."""
    found: dict[str, list[Panel]] = {}
    for name, recipe in RECIPES.items():
        sweeps = comparable(recipe, kept)
        if sweeps and name != "pathsum":
            found[name] = [_scaling(sweep) for sweep in sweeps]
        if sweeps and name == "variants":
            found["variants.landscapes"] = [_landscape(sweep, kept) for sweep in sweeps]
    zero_shot = kept.sweeps.get(VIT_384_EPOCH_3.name)
    if zero_shot is not None and "zero-shot" in found and any(errors(zero_shot).values()):
        found["zero-shot"].append(_errors(zero_shot))
    rates = pathsum_rates(kept)
    if len(rates.get("tuned", {})) > 1:
        found["pathsum"] = [lambda axes: draw_rates(axes, rates)]
    theory = {
        title: [one for s in family if (one := kept.energies.get(s.name)) and one.moving]
        for title, family in FAMILIES.items()
    }
    panels = [_energies(title, family) for title, family in theory.items() if family]
    return found | ({"theory": panels} if panels else {})


def drawn(panels: list[Panel]) -> bytes:
    """A PNG of these panels."""
    pyplot()  # the sentence where matplotlib is missing
    from matplotlib.figure import Figure

    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    content = BytesIO()
    with style():
        figure = Figure(figsize=(SIZE[0] * columns, SIZE[1] * rows), layout="constrained")  # of no window system
        places = list(figure.subplots(rows, columns, squeeze=False).flat)
        for panel, axes in zip(panels, places[: len(panels)], strict=True):
            panel(axes)
        for axes in places[len(panels) :]:
            axes.remove()
        figure.savefig(content, format="png", dpi=80, metadata={})
    return content.getvalue()


def draw_rates(axes: Axes, rates: dict[str, dict[int, float]]) -> None:
    """Tuned rates as points, what each rule makes of the shallowest one as lines, over blocks."""
    axes_or_new(axes)
    axes.set(xscale="log", yscale="log")
    for index, ((name, by_size), colour) in enumerate(
        zip(rates.items(), category_colours(axes, len(rates)), strict=True)
    ):
        line = {"ls": "", "ms": 7} if name == "tuned" else {"ls": ":", "ms": 4.5, "mfc": "none"}
        label = name if name == "tuned" else f"{name} from {min(by_size)}"
        axes.plot(*_sorted(by_size), marker=MARKERS[index], color=colour, label=label, **line)  # type: ignore[arg-type]
    axes.set(xlabel="blocks", ylabel="learning rate")
    axes.set_title(f"{CIFAR10_RESNET.title}: tuned rates against the rules", loc="left", fontsize=10.5)
    depth_axis(axes.xaxis, rates["tuned"])
    log_axis(axes.yaxis)
    add_legend(axes, "below", columns=2)


def draw_energies(axes: Axes, shown: Sequence[Energies]) -> None:
    """Rates for mean energy 1, medians over seeds, each relative to its shallowest model, and the law."""
    axes_or_new(axes)
    axes.set(xscale="log", yscale="log")
    depths: set[int] = set()
    for index, (one, colour) in enumerate(zip(shown, category_colours(axes, len(shown)), strict=True)):
        means: dict[int, list[float]] = {}
        for row in one.moving:
            means.setdefault(one.depths[row], []).append(one.means[row])
        rates = {depth: median(values) ** -0.5 for depth, values in sorted(means.items())}
        first = min(rates)
        relative = {depth: rate / rates[first] for depth, rate in rates.items()}
        axes.plot(*_sorted(relative), marker=MARKERS[index], ms=4.5, lw=1.2, color=colour, label=one.setting.title)
        depths |= set(rates)
    ends = [min(depths), max(depths)]
    axes.plot(
        ends,
        [transfer_by_power(1.0, ends[0], end) for end in ends],
        color=text_colour(axes),
        ls="--",
        label="law: slope −3/2",
    )
    axes.set(xlabel="effective depth (units)", ylabel="rate for mean energy 1, relative")
    depth_axis(axes.xaxis, depths)
    log_axis(axes.yaxis)
    add_legend(axes, "below", columns=2)


def comparable(recipe: Recipe, kept: Kept) -> list[Sweep]:
    """The sweeps to draw: another recipe's settings under this one's protocol if they have it, so that they compare."""
    own = {s.protocol for setting in recipe.slopes if home(setting) is recipe for s in kept.complete(setting)[:1]}
    found = []
    for setting in recipe.slopes:
        sweeps = kept.complete(setting)
        alike = [sweep for sweep in sweeps if sweep.protocol in own and home(setting) is not recipe]
        found += (alike or sweeps)[:1]
    return [sweep for sweep in found if any(curve.optimum for curve in sweep.learnt.curves)]


def _scaling(sweep: Sweep) -> Panel:
    return lambda axes: _titled(scaling(sweep.learnt, sweep.setting.label, axes=axes), sweep)


def _landscape(sweep: Sweep, kept: Kept) -> Panel:
    """The first seed's whole range where it was scanned, or as much as the search has seen."""
    scan = kept.sweeps.get(SCANS[sweep.setting.name].name)
    if scan is None:
        return lambda axes: _titled(loss_landscape(sweep.results, axes=axes), sweep)
    searched = next((one for one in kept.protocols(sweep.setting) if one.protocol == scan.protocol), scan)
    return lambda axes: _titled(loss_landscape(both(scan.results, searched.results), axes=axes), scan)


def both(scan: Results, searched: Results) -> Results:
    """A scan with what a search of the same runs adds to its seed: few rates on the walls, many in the valley."""
    known = {record.cell: record for record in (*searched.records, *scan.records)}
    cells = sorted(cell for cell in known if cell.seed in scan.study.search.seeds)
    depths = {**(searched.depths or {}), **(scan.depths or {})}
    return replace(scan, records=tuple(known[cell] for cell in cells), depths=depths)


def _energies(title: str, shown: Sequence[Energies]) -> Panel:
    def panel(axes: Axes) -> None:
        draw_energies(axes, shown)
        axes.set_title(title, loc="left", fontsize=10.5)

    return panel


def _titled(axes: Axes, sweep: Sweep) -> None:
    state = sweep.protocol if sweep.facts["complete"] else f"{sweep.protocol}, unfinished"
    axes.set_title(f"{sweep.setting.title} ({state})", loc="left", fontsize=10.5)


def _errors(sweep: Sweep) -> Panel:
    return lambda axes: transfer_error({NAMES[rule]: found for rule, found in errors(sweep).items()}, axes=axes)


def _sorted(by_size: dict[int, float]) -> tuple[list[int], list[float]]:
    sizes = sorted(by_size)
    return sizes, [by_size[size] for size in sizes]
