"""RealBench as a picture: how tuned rates change with depth, and every rule's error on each recipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from depthlr.law.rules import CONSTANT_EXPONENT, LAW_EXPONENT
from depthlr.present import style, transfer_error
from depthlr.present.style import MARKERS, add_legend, axes_or_new, category_colours, set_title, text_colour
from experiments.realbench.candidates import signed_errors
from experiments.realbench.scores import Tuned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("copy", "constant exponent", "law")
SIZE = (10.6, 4.2)  # inches: as wide as a page of the documentation shows it


def draw(recipes: Sequence[Tuned], results: Path, path: Path) -> None:
    """Draw both panels as a PNG.

    Args:
        recipes: Their rates are tuned. What a rule fits, it fits on the others of these.
        results: Where the tables lie.
        path: The file.
    """
    with style():
        figure = Figure(figsize=SIZE, layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(5, 4))
        _draw_changes(recipes, left)
        errors = {rule: middle_errors(rule, recipes, results) for rule in SHOWN}
        transfer_error(errors, axes=right, floor=median(recipe.floor for recipe in recipes))
        right.set(ylabel="", xlabel="error (decades; 0.30 is a factor of 2)")
        add_legend(right, "below", columns=2)
        set_title(right, f"Median error on each of {len(recipes)} recipes")
        figure.savefig(path)


def middle_errors(rule: str, recipes: Sequence[Tuned], results: Path) -> list[float]:
    """A rule's median error on each recipe, with the sign of the middle transfer.

    Args:
        rule: One of `CANDIDATES`.
        recipes: As in `draw`.
        results: Where the tables lie.
    """
    found = signed_errors(rule, recipes, results).values()
    return [math.copysign(median(map(abs, errors)), median(errors)) for errors in found]


def _draw_changes(recipes: Sequence[Tuned], axes: Axes) -> None:
    """log10 of the tuned rate over the smallest size's, against log10 of the depth over the smallest size's."""
    axes = axes_or_new(axes)
    reach = 0.0
    for recipe, marker, colour in zip(recipes, MARKERS * 2, category_colours(axes, len(recipes)), strict=False):
        sizes = sorted(recipe.decades)
        first = sizes[0]
        ratios = [math.log10(recipe.depths[size] / recipe.depths[first]) for size in sizes]
        changes = [recipe.decades[size] - recipe.decades[first] for size in sizes]
        axes.plot(ratios, changes, marker=marker, ms=6, lw=1, color=colour, label=recipe.name, alpha=0.9)
        reach = max(reach, *ratios)
    for name, exponent, dashes in (("constant", CONSTANT_EXPONENT, "-"), ("law", LAW_EXPONENT, "--")):
        label = f"{name}: depth^({exponent:g})"
        axes.plot([0, reach], [0, exponent * reach], color=text_colour(axes), lw=1.5, ls=dashes, zorder=1, label=label)
    axes.set(xlabel="growth of effective depth (decades)", ylabel="change of the tuned rate (decades)")
    set_title(axes, "From the smallest model to each larger one")
    add_legend(axes)
