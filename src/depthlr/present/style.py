"""The style of all plots: text and background colours, colours of depths and categories, axes of rates and depths.

Colours follow the axes, not a global setting: light labels mean a dark background.
matplotlib is an optional dependency and is imported with the first plot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from depthlr.errors import DepthlrError
from depthlr.formatting import number_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.legend import Legend

LegendPlace = Literal["right", "below"]
SIZE = (6.8, 4.2)  # inches
LIGHT, DARK = ("#ffffff", "#1f2328"), ("#0d1117", "#e6edf3")  # page, ink
# Okabe and Ito's colours, those with the most contrast to the page first.
ON_LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
ON_DARK = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00")
MARKERS = ("o", "s", "D", "^", "v", "P")
MOST_TICKS = 12
SMALL = 9.0  # points: legends and remarks
FIGURE_SPACE = "\N{FIGURE SPACE}"  # as wide as a digit
LAW_LABEL = "law: slope −3/2 through the centre"


def pyplot() -> ModuleType:
    """matplotlib.pyplot, or an error that says how to install it."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise DepthlrError('Plots need matplotlib: run pip install "depthlr[plots]".') from error
    return pyplot


@contextmanager
def style(*, dark: bool = False, transparent: bool = False) -> Iterator[None]:
    """A context in which plots have this style.

    Args:
        dark: Light text on a dark background.
        transparent: No background.
    """
    page, ink = DARK if dark else LIGHT
    page = "none" if transparent else page
    inks = ("text.color", "axes.labelcolor", "axes.titlecolor", "axes.edgecolor", "xtick.color", "ytick.color")
    settings = {"figure.figsize": SIZE, "savefig.dpi": 160, "savefig.facecolor": "auto", "font.size": 10}
    settings |= {"figure.facecolor": page, "axes.facecolor": page, "svg.hashsalt": "depthlr"}
    with pyplot().rc_context(settings | dict.fromkeys(inks, ink)):
        yield


def axes_or_new(axes: Axes | None) -> Axes:
    """The axes to draw on, new ones if None: without a box, with a faint grid."""
    if axes is None:
        axes = pyplot().subplots(figsize=SIZE, layout="constrained")[1]
    pyplot()  # raises an error if matplotlib is missing
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.15, color=text_colour(axes), linewidth=0.6)
    axes.tick_params(which="both", colors=text_colour(axes))
    axes.set_axisbelow(True)
    return axes


def text_colour(axes: Axes) -> str:
    """The text colour of these axes."""
    from matplotlib.colors import to_hex

    return to_hex(axes.xaxis.label.get_color())


def has_dark_background(axes: Axes) -> bool:
    """Whether the text is light."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(text_colour(axes))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5


def depth_colours(axes: Axes, depths: Iterable[float]) -> dict[float, str]:
    """A colour for each depth along viridis, evenly in log depth, without the end that is close to the background."""
    from matplotlib.colors import to_hex

    known = sorted(set(depths))
    logs = [math.log(depth) for depth in known]
    first, last = (0.4, 1.0) if has_dark_background(axes) else (0.0, 0.82)
    shares = [(log - logs[0]) / (logs[-1] - logs[0]) if logs[-1] > logs[0] else 0.5 for log in logs]
    viridis = pyplot().get_cmap("viridis")
    return {depth: to_hex(viridis(first + (last - first) * s)) for depth, s in zip(known, shares, strict=True)}


def category_colours(axes: Axes, count: int) -> list[str]:
    """Colours that the colour-blind tell apart; past the sixth they come again, so give a marker besides."""
    palette = ON_DARK if has_dark_background(axes) else ON_LIGHT
    return [palette[index % len(palette)] for index in range(count)]


def log_axis(axis: Axis) -> None:
    """Log ticks as plain numbers: 0.01, 0.02, 0.05; only decades if there are many."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    decades = math.log10(high / low)
    subs: Sequence[int] = (1,)
    if decades < 0.5:
        subs = range(1, 10)
    elif decades < 2.5:
        subs = (1, 2, 5)
    axis.set_major_locator(LogLocator(subs=[float(digit) for digit in subs], numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    axis.set_minor_formatter(NullFormatter())


def depth_axis(axis: Axis, depths: Iterable[float]) -> None:
    """A log axis with the depths themselves as ticks, without those that are too close."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    shown = thin_ticks(sorted(set(depths)))
    axis.set_major_locator(FixedLocator(shown))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def thin_ticks(depths: Sequence[float]) -> list[float]:
    """The first and last depth, and those between that are at least a twelfth of the log axis apart."""
    if len(depths) < 3:
        return list(depths)
    gap = math.log(depths[-1] / depths[0]) / MOST_TICKS
    shown = [depths[0]]
    for depth in depths[1:-1]:
        if math.log(depth / shown[-1]) >= gap and math.log(depths[-1] / depth) >= gap:
            shown.append(depth)
    return [*shown, depths[-1]]


def escape_label(text: object) -> str:
    """Escape a label: matplotlib reads $...$ as mathematics and hides labels that begin with an underscore."""
    escaped = str(text).replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped


def right_align(names: Sequence[str]) -> list[str]:
    """Names padded on the left to one width, so that numbers line up in a legend."""
    width = max(map(len, names), default=0)
    return [name.rjust(width, FIGURE_SPACE) for name in names]


def draw_interval(axes: Axes, depth: float, ends: tuple[float, float], colour: str) -> None:
    """Draw a vertical bar with caps."""
    axes.plot([depth] * 2, ends, color=colour, lw=1.4, marker="_", ms=7, mew=1.4, zorder=3)


def add_legend(axes: Axes, place: LegendPlace = "right", title: str | None = None, columns: int = 2) -> Legend:
    """Add a legend beside the axes or below them."""
    legend = axes.legend(
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0) if place == "right" else (-0.02, -0.14),
        ncols=1 if place == "right" else columns,
        title=title,
        fontsize=SMALL,
        title_fontsize=SMALL,
        labelcolor=text_colour(axes),
        frameon=False,
        borderpad=0.3,
        columnspacing=1.2,
    )
    legend.get_title().set_color(text_colour(axes))
    return legend


def set_title(axes: Axes, text: str, *, bold: bool = False) -> None:
    weight = "bold" if bold else "normal"
    axes.set_title(text, loc="left", fontsize=10.5, fontweight=weight, color=text_colour(axes), parse_math=False)
