"""Why the BatchNorm ResNet's rate falls with depth: hypotheses, written down before anything was run, and their tables.

Every hypothesis names what is measured and what would refute it. A change is that of log10 of the tuned rate between
the sizes of the variant, the smallest and the largest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from experiments.pages import markdown_table
from experiments.realbench.dynamics import DYNAMICS
from experiments.realbench.kept import is_finished
from experiments.realbench.plan import DYNAMICS_OF, WHY
from experiments.realbench.recipes import recipe_named
from experiments.realbench.scores import read_tuned

WARM_UP = (30, 60, 119)  # steps of the dynamics that lie within the warm-up of 120
LATE = (600, 900)  # and in the middle of the decay


@dataclass(frozen=True)
class Hypothesis:
    """What could be the reason, what is compared to see it, and what refutes it."""

    name: str
    claim: str
    measured: str
    refuted: str


HYPOTHESES = (
    Hypothesis(
        "weight decay",
        "Convolutions before BatchNorm are scale-invariant. With weight decay their angle per step tends to "
        "sqrt(2 rate decay) at any depth, so the tuned rate would not fall. It falls because weights do not get there.",
        "change of the ResNet without weight decay; angle per step at the end, by size",
        "the change without weight decay is within 0.05 of that with it",
    ),
    Hypothesis(
        "last gain 0",
        "Branches that begin at zero leave the stream alone. With gain 1 its variance grows with every block, so that "
        "the rate falls faster.",
        "change of the ResNet whose last gain is 1",
        "it is within 0.05 of that with gain 0",
    ),
    Hypothesis(
        "sharpness",
        "The best rate follows the limit of stability, 2 (1 + momentum) / sharpness, and sharpness grows with depth at "
        "one rate.",
        "change of log10 of sharpness at step 60, and of curvature along the step, from the smallest to the largest",
        "minus that change is not within 0.1 of the change of the tuned rate",
    ),
    Hypothesis(
        "momentum",
        "Momentum multiplies the rate by 10 at every depth, so it has no part in the change.",
        "change of the ResNet without momentum",
        "it differs by more than 0.1",
    ),
    Hypothesis(
        "batch statistics",
        "The fall comes from scale invariance, which GroupNorm has as well, and not from the noise of statistics of a "
        "batch.",
        "change of the ResNet with GroupNorm",
        "it differs by more than 0.1",
    ),
    Hypothesis(
        "Muon",
        "Muon's update has the same size whatever the gradient, so that one step moves the outputs, relative to their "
        "size, equally far at every depth, and the tuned rate needs no change.",
        "change of log10 of the output's change at one rate in warm-up, with Muon and with AdamW; the tuned changes of "
        "both (known from the design half: -0.16 with Muon, -0.02 with AdamW, which speaks against the claim)",
        "with Muon it is not nearer to zero than with AdamW",
    ),
    Hypothesis(
        "Muon's size",
        "With the update scaled to AdamW's size (0.2 root of the larger side) Muon's decoupled weight decay acts as "
        "AdamW's does. Without weight decay, or with the original scale, the tuned change is the same.",
        "change of the decoder with Muon without weight decay, and with Muon's original scale on all matrices",
        "either differs by more than 0.1",
    ),
)


def hypotheses_table(results: Path) -> str:
    """The hypotheses, whether anything is measured yet or not."""
    rows = [[one.name, one.claim, one.measured, one.refuted] for one in HYPOTHESES]
    return markdown_table(("hypothesis", "claim", "measured", "refuted if"), rows) + "\n"


def changes_table(results: Path) -> str:
    """The tuned change of every variant beside that of its recipe at the same two sizes."""
    rows = []
    for variant in WHY:
        recipe = recipe_named(variant)
        table, base = results / f"{recipe.name}.csv", recipe.name.partition("+")[0]
        if not is_finished(table):
            return ""
        own, other = read_tuned(table), read_tuned(results / f"{base}.csv")
        ends = min(own.decades), max(own.decades)
        change, usual = (tuned.decades[ends[1]] - tuned.decades[ends[0]] for tuned in (own, other))
        floor = math.hypot(own.floor, other.floor)
        sizes = f"{ends[0]} to {ends[1]}"
        rows.append([recipe.name, sizes, f"{change:+.2f}", f"{usual:+.2f}", f"{change - usual:+.2f}", f"{floor:.2f}"])
    head = ("variant", "sizes", "tuned change", "the recipe's", "difference", "floor of it")
    return markdown_table(head, rows) + "\n"


def dynamics_table(results: Path) -> str:
    """How each quantity changes from the smallest size to the largest at one rate, in decades; and the tuned change."""
    rows = []
    for name in DYNAMICS_OF:
        recipe = recipe_named(name)
        path = results / "dynamics" / f"{recipe.name}.csv"
        if not is_finished(path):
            return ""
        found = DYNAMICS.read(path)
        base = read_tuned(results / f"{recipe.name.partition('+')[0]}.csv")
        tuned = base.decades[max(base.decades)] - base.decades[min(base.decades)]
        for words, steps in (("warm-up", WARM_UP), ("late", LATE)):
            changes = [f"{change_over_sizes(found, column, steps):+.2f}" for column in COMPARED]
            rows.append([recipe.name, words, f"{tuned:+.2f}", *changes])
    head = ("runs", "when", "the recipe's tuned change", *(column.replace("_", " ") for column in COMPARED))
    return markdown_table(head, rows) + "\n"


COMPARED = ("weight_norm", "relative_update", "angle", "gradient_norm", "sharpness", "step_curvature", "output_change")


def change_over_sizes(rows: Mapping[tuple[str, ...], Mapping[str, str]], column: str, steps: Sequence[int]) -> float:
    """log10 of a column at the largest size over the smallest one: the mean over seeds and steps."""
    found: dict[int, list[float]] = {}
    for row in rows.values():
        if int(row["step"]) in steps:
            found.setdefault(int(row["size"]), []).append(abs(float(row[column])))
    means = {size: fmean(map(math.log10, values)) for size, values in found.items()}
    return means[max(means)] - means[min(means)]
