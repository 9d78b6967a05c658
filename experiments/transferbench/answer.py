"""The tables and the picture at the top of the page: errors of the main rules, on all test tasks and on parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from depthlr.present import style, transfer_error
from depthlr.present.style import MARKERS, add_legend, axes_or_new, category_colours, set_title, text_colour
from experiments.pages import markdown_table
from experiments.transferbench.known import Oracle
from experiments.transferbench.rules import CHOSEN, RULES, Rule, factor
from experiments.transferbench.scores import PERFECT, Known, Pair, by_task, carried, floor, gain
from experiments.transferbench.table import NOTHING, gain_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COMPARED = (CHOSEN, "law", "copy")
LITTLE = 0.04  # of the loss of guessing: a size whose loss falls by less hardly learns
SAME = 1e-2  # relative difference of measurements that are equal but for the device
DRAWN = ("copy", "law", "mean energy", "readout energy", CHOSEN)
SIZE = (13.0, 4.6)  # inches


def answer(known: Sequence[Known]) -> str:
    """Errors of the main rules over all transfers and over those from the smallest size, and the gains of ours."""
    medians = {name: by_task(_pairs(known, name)) for name in COMPARED}
    rows = []
    for name in COMPARED:
        pairs = _pairs(known, name)
        title, better = f"`{name}`", gain(medians[CHOSEN], medians[name])
        if name == CHOSEN:
            title, better = f"**{title}**", None
        every, grown, ends = errors(pairs), errors(upwards(known, pairs)), errors(to_the_largest(known, pairs))
        rows.append(
            (
                title,
                *(f"{value:.3f}" for value in (median(every), np.quantile(every, 0.9), median(grown), median(ends))),
                gain_text(better),
            )
        )
    limit = PERFECT * median(errors([pair for one in known for pair in floor(one)]))
    rows.append(("a perfect rule", f"{limit:.3f}", *[NOTHING] * 4))
    head = (
        "rule",
        "median error, all transfers",
        "90 % quantile",
        "median, smallest to each larger model",
        "median, smallest to largest",
        f"gain of `{CHOSEN}` (95 % interval)",
    )
    return markdown_table(head, rows) + "\n"


def parts(known: Sequence[Known], designed: Sequence[Known]) -> str:
    """Median errors on parts of the test tasks, and how much of the learning a carried rate misses."""
    chosen = {
        "all sizes": list(known),
        f"sizes that learn (a loss at least {LITTLE:.0%} below that of guessing)": that_learn(known),
        "tasks whose measurements differ from those of all design tasks": unlike(known, designed),
    }
    rows = []
    for title, tasks in chosen.items():
        middles = [median(errors(_pairs(tasks, name))) for name in COMPARED]
        rows.append((f"median error, {title}", str(len(tasks)), *(f"{value:.3f}" for value in middles)))
    missed = [missed_learning(known, name) for name in COMPARED]
    for title, share in (("median", 0.5), ("90 % quantile", 0.9)):
        cells = [f"{np.quantile(found, share):.0%}" for found in missed]
        rows.append((f"share of the learning that is missed, {title}", str(len(known)), *cells))
    return markdown_table(("figure", "tasks", *(f"`{name}`" for name in COMPARED)), rows) + "\n"


def errors(pairs: Sequence[Pair]) -> list[float]:
    """Absolute errors in decades."""
    return [abs(pair.error) for pair in pairs]


def upwards(known: Sequence[Known], pairs: Sequence[Pair]) -> list[Pair]:
    """The transfers from the smallest size of a task."""
    smallest = {one.name: min(one.sizes) for one in known}
    return [pair for pair in pairs if pair.source == smallest[pair.task]]


def to_the_largest(known: Sequence[Known], pairs: Sequence[Pair]) -> list[Pair]:
    """The transfers from the smallest size of a task to its largest."""
    largest = {one.name: max(one.sizes) for one in known}
    return [pair for pair in upwards(known, pairs) if pair.target == largest[pair.task]]


def guessing(task: Known) -> float:
    """The loss of equal chances."""
    return math.log(100 if "cifar100" in task.name else 65 if "text" in task.name else 10)


def falls(task: Known) -> dict[int, float]:
    """How far below guessing the median seed's least loss lies, by size, as a share."""
    least = {size: median(min(one.losses) for one in task.oracle.curves[size].values()) for size in task.sizes}
    return {size: 1 - loss / guessing(task) for size, loss in least.items()}


def that_learn(known: Sequence[Known]) -> list[Known]:
    """The tasks without the sizes that hardly learn; a task that has no other size is left out."""
    found = []
    for task in known:
        learnt = {size for size, share in falls(task).items() if share >= LITTLE}
        curves = {size: curve for size, curve in task.oracle.curves.items() if size in learnt}
        found.append(replace(task, oracle=Oracle(curves)))
    return [task for task in found if task.sizes]


def same_measurements(known: Sequence[Known], designed: Sequence[Known]) -> dict[str, float]:
    """The tasks that measure what a design task does, with the least difference of their tuned rates in decades."""
    found: dict[str, float] = {}
    for task in known:
        for other in designed:
            if _measure_alike(task, other):
                apart = max(abs((task.oracle.rate(s) or 0.0) - (other.oracle.rate(s) or 0.0)) for s in task.sizes)
                found[task.name] = min(found.get(task.name, math.inf), apart)
    return found


def unlike(known: Sequence[Known], designed: Sequence[Known]) -> list[Known]:
    """The tasks that measure what no design task does."""
    same = same_measurements(known, designed)
    return [task for task in known if task.name not in same]


def missed_learning(known: Sequence[Known], name: str) -> list[float]:
    """How much higher the loss at a carried rate is than the best, over how far the best lies below guessing."""
    found = []
    for task in known:
        for pair in carried(RULES[name], task):
            best = float(np.mean([min(one.losses) for one in task.oracle.curves[pair.target].values()]))
            found.append(pair.regret * best / max(guessing(task) - best, 1e-9))
    return found


def _pairs(known: Sequence[Known], name: str) -> list[Pair]:
    return [pair for one in known for pair in carried(RULES[name], one)]


def _measure_alike(task: Known, other: Known) -> bool:
    ours, theirs = _energies(task), _energies(other)
    return all(
        len(ours[size]) == len(theirs.get(size, ())) and np.allclose(ours[size], theirs[size], rtol=SAME, atol=0)
        for size in task.sizes
    )


def _energies(task: Known) -> Mapping[int, list[float]]:
    return {size: [draw.found.energy for draw in task.measured[size].persistent] for size in task.sizes}


def draw(known: Sequence[Known], rules: Mapping[str, Rule], path: Path) -> None:
    """The comparison as a PNG: the predicted change of the rate beside the tuned one, and errors by rule."""
    from matplotlib.figure import Figure  # here: matplotlib is not needed otherwise

    with style():
        figure = Figure(figsize=SIZE, layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(4, 5))
        _changes(known, rules[CHOSEN], left)
        errors = {name: [pair.error for one in known for pair in carried(rules[name], one)] for name in DRAWN}
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
