"""The comparison as a picture: the predicted change of the rate beside the tuned one, and errors by rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from depthlr.present import style, transfer_error
from depthlr.present.style import MARKERS, add_legend, axes_or_new, category_colours, set_title, text_colour
from experiments.transferbench.rules import CHOSEN, Rule, factor
from experiments.transferbench.scores import PERFECT, Known, carried, floor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("copy", "law", "mean energy", "readout energy", CHOSEN)
SIZE = (13.0, 4.6)  # inches


def draw(known: Sequence[Known], rules: Mapping[str, Rule], path: Path) -> None:
    """Two panels, as a PNG."""
    with style():
        figure = Figure(figsize=SIZE, layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(4, 5))
        _changes(known, rules[CHOSEN], left)
        errors = {name: [pair.error for one in known for pair in carried(rules[name], one)] for name in SHOWN}
        limit = median(abs(pair.error) for one in known for pair in floor(one))
        transfer_error(errors, axes=right, floor=PERFECT * limit)
        right.set_ylabel("")
        add_legend(right, "below", columns=3)
        set_title(right, f"All {len(errors['copy'])} transfers, by rule")
        figure.savefig(path)


def _changes(known: Sequence[Known], rule: Rule, axes: Axes) -> None:
    """log10 of the rate over the smallest size's: tuned across, the rule's up."""
    axes = axes_or_new(axes)
    colours = category_colours(axes, len(known))
    reach = []
    for place, one in enumerate(known):
        first, *others = one.sizes
        start = one.oracle.rate(first) or 0.0
        tuned = [(one.oracle.rate(size) or 0.0) - start for size in others]
        measured = [factor(rule, one.measured[first], one.measured[size]) or np.nan for size in others]
        marker = MARKERS[(place // len(MARKERS) + place) % len(MARKERS)]
        axes.plot(tuned, measured, ls="", marker=marker, ms=6, color=colours[place], label=one.name, alpha=0.9)
        reach += [*tuned, *measured]
    low = min(reach) - 0.1
    axes.plot([low, 0.05], [low, 0.05], color=text_colour(axes), lw=1, ls="--", zorder=1, label="predicted = tuned")
    axes.set(xlabel="tuned change of the rate (decades)", ylabel="predicted change, no training (decades)")
    set_title(axes, "From a task's smallest model to each larger one")
    add_legend(axes)
