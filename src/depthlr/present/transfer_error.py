"""Transfer error by rule: how far carried rates miss the tuned ones, a dot a transfer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from depthlr.errors import DepthlrError
from depthlr.present.style import SMALL, add_legend, axes_or_new, category_colours, ink, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ByPair = Mapping[tuple[float, float], float]
SPREAD = 0.3  # of a row's height, to either side
MANY = 60  # dots a row, beyond which they are drawn smaller


def transfer_error(
    errors: Mapping[str, ByPair | Sequence[float]], *, axes: Axes | None = None, floor: float | None = None
) -> Axes:
    """|log10(carried / tuned)| by rule, in decades: a dot a transfer, a bar the median, best rule first.

    `errors` are signed, by (source, target) depth or in a list; where the carried rate was too low the dot is hollow.
    `floor` is the median error that the seeds alone would cause (`seed_floor`).
    """
    rows = {rule: list(found.values() if isinstance(found, Mapping) else found) for rule, found in errors.items()}
    if not any(rows.values()):
        raise DepthlrError("There are no transfers to plot: tune a rate at two depths or more.")
    axes = axes_or_new(axes)
    middles = {rule: median(abs(error) for error in found) for rule, found in rows.items() if found}
    order = sorted(middles, key=lambda rule: -middles[rule])
    colours = category_colours(axes, len(order))
    for height, (rule, colour) in enumerate(zip(order, colours, strict=True)):
        bar = {"color": ink(axes), "lw": 1.8, "zorder": 4}
        axes.plot([middles[rule]] * 2, [height - 0.4, height + 0.4], gid=f"median-{rule}", **bar)  # type: ignore[arg-type]
        for high in (True, False):
            dots = [(abs(error), _jitter(i)) for i, error in enumerate(rows[rule]) if (error >= 0) is high]
            axes.plot(
                [x for x, _ in dots],
                [height + y for _, y in dots],
                ls="",
                marker="o",
                ms=4.5 if len(rows[rule]) <= MANY else 3,
                color=colour,
                mfc=colour if high else axes.get_facecolor(),
                mec=axes.get_facecolor() if high else colour,
                mew=0.7 if high else 1.2,
                zorder=3,
                gid=f"errors-{rule}",
            )
        axes.annotate(
            f"{middles[rule]:.2f}",
            (middles[rule], height + 0.4),
            textcoords="offset points",
            xytext=(0, 1),
            ha="center",
            va="bottom",
            bbox={"facecolor": axes.get_facecolor(), "edgecolor": "none", "pad": 0.5},
            fontsize=SMALL,
            color=ink(axes),
        )
    if floor is not None:
        axes.axvline(floor, color=ink(axes), lw=1, ls="--", gid="floor", label=f"seeds alone: {floor:.2f}")
    dot = {"ls": "", "marker": "o", "ms": 4.5, "color": ink(axes)}
    axes.plot([], [], label="too high a rate", **dot)  # type: ignore[arg-type]
    axes.plot([], [], label="too low a rate", mfc="none", **dot)  # type: ignore[arg-type]
    axes.set_yticks(range(len(order)), labels=[plain(rule) for rule in order])
    axes.set(xlim=(0, None), ylim=(-0.6, len(order) - 0.25), ylabel="rule")
    axes.set_xlabel("error of the carried rate, |log10| (decades; 0.30 is a factor of 2)")
    axes.grid(visible=False, axis="y")
    add_legend(axes, "below", columns=3)
    return axes


def _jitter(index: int) -> float:
    """Heights that fill a row evenly and are the same each time: the golden ratio's multiples."""
    return SPREAD * (2 * ((index * 0.618034 + 0.5) % 1) - 1)
