"""The style of all plots: text and background colours, colours of depths and categories, axes of rates and depths.

Colours follow the axes, not a global setting: light labels mean a dark background.
matplotlib is an optional dependency and is imported with the first plot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from depthlr.errors import DepthlrError
from depthlr.formatting import number_text
from depthlr.law.fit import Fit, Point
from depthlr.present.findings import seed_interval

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
INTERVAL_REACH = 10**0.8  # a longer interval is cut by the picture


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
    """A colour for each depth along viridis, evenly in log depth, without the end that is close to the background.

    Args:
        axes: Where they will be used.
        depths: The depths.
    """
    from matplotlib.colors import to_hex

    known = sorted(set(depths))
    first, last = (0.4, 1.0) if has_dark_background(axes) else (0.0, 0.82)
    viridis = pyplot().get_cmap("viridis")
    colours = {}
    for depth in known:
        share = math.log(depth / known[0]) / math.log(known[-1] / known[0]) if len(known) > 1 else 0.5
        colours[depth] = to_hex(viridis(first + (last - first) * share))
    return colours


def category_colours(axes: Axes, count: int) -> list[str]:
    """Colours that the colour-blind tell apart; past the sixth they come again, so give a marker besides.

    Args:
        axes: Where they will be used.
        count: How many.
    """
    palette = ON_DARK if has_dark_background(axes) else ON_LIGHT
    return [palette[index % len(palette)] for index in range(count)]


def log_axis(axis: Axis) -> None:
    """Log ticks as plain numbers: 0.01, 0.02, 0.05; only decades if there are many."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    decades = math.log10(high / low)
    digits: Sequence[float] = (1.0,)
    if decades < 0.5:
        digits = [float(digit) for digit in range(1, 10)]
    elif decades < 2.5:
        digits = (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=digits, numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    axis.set_minor_formatter(NullFormatter())


def depth_axis(axis: Axis, depths: Iterable[float]) -> None:
    """A log axis with the depths themselves as ticks, with every second, third, ... if there are many.

    Args:
        axis: The axis.
        depths: The depths that are drawn.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(sorted(set(depths)), nbins=MOST_TICKS))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def escape_label(text: object) -> str:
    """Escape a label: matplotlib reads $...$ as mathematics and hides labels that begin with an underscore."""
    escaped = str(text).replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped


def right_align(names: Sequence[str]) -> list[str]:
    """Names padded on the left to one width, so that numbers line up in a legend."""
    width = max(map(len, names), default=0)
    return [name.rjust(width, FIGURE_SPACE) for name in names]


def draw_points(axes: Axes, points: Iterable[tuple[float, float]], colour: str, **options: Any) -> None:
    """Draw points without a line between them.

    Args:
        axes: Where to draw.
        points: Their coordinates.
        colour: Their colour.
        options: Other options of matplotlib's `plot`, such as `mfc="none"` for hollow points.
    """
    places = list(points)
    across, up = map(list, zip(*places, strict=True)) if places else ([], [])
    axes.plot(across, up, color=colour, **{"ls": "", "marker": "o", **options})


def draw_intervals(axes: Axes, points: Mapping[float, Point], colour: str, spacing: float | None = None) -> list[float]:
    """Draw the 95 % interval over seeds of each point as a bar with caps.

    Args:
        axes: Where to draw.
        points: Means over seeds, by their place on the axis of depths.
        colour: The colour of the bars.
        spacing: The step of the grid of rates in decades.

    Returns:
        The rates that the axis must include. A very long interval is cut by the picture.
    """
    shown: list[float] = []
    for place, point in points.items():
        ends = seed_interval(point, spacing)
        if ends is not None:
            axes.plot([place] * 2, ends, color=colour, lw=1.4, marker="_", ms=7, mew=1.4, zorder=3)
            rate = 10**point.log10_rate
            shown += [max(ends[0], rate / INTERVAL_REACH), min(ends[1], rate * INTERVAL_REACH)]
    return shown


def draw_fit(axes: Axes, fit: Fit, reach: Sequence[float], colour: str, **options: Any) -> list[float]:
    """Draw the line of a fit and its band, and return the rates at its ends.

    Args:
        axes: Where to draw.
        fit: The line.
        reach: Depths along the axis.
        colour: The colour of both.
        options: Other options of matplotlib's `plot`.
    """
    rates = [fit.predict(depth) for depth in reach]
    axes.plot(reach, rates, color=colour, **options)
    sides = fit.band(reach)
    if sides is not None:
        axes.fill_between(reach, *sides, color=colour, alpha=0.13, lw=0, gid="band")
    return [rates[0], rates[-1]]


def draw_law(axes: Axes, reach: Sequence[float], rates: Sequence[float]) -> list[float]:
    """Draw the law's line, dashed, and return the rates at its ends.

    Args:
        axes: Where to draw.
        reach: Depths along the axis.
        rates: The law's rates there.
    """
    axes.plot(reach, rates, color=text_colour(axes), lw=1.3, ls="--", label=LAW_LABEL, gid="law")
    return [rates[0], rates[-1]]


def add_legend(axes: Axes, place: LegendPlace = "right", title: str | None = None, columns: int = 2) -> Legend:
    """Add a legend beside the axes or below them.

    Args:
        axes: What it explains.
        place: To the right, or below.
        title: Its title.
        columns: How many columns it has below the axes.
    """
    anchor, count = ((1.0, 1.0), 1) if place == "right" else ((-0.02, -0.14), columns)
    legend = axes.legend(
        loc="upper left",
        bbox_to_anchor=anchor,
        ncols=count,
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


def set_title(axes: Axes, text: str, *, bold: bool = False, above: float = 0.0) -> None:
    """Set the title, at the left. Dollar signs are text and not mathematics.

    Args:
        axes: What it names.
        text: The title.
        bold: Whether it is bold.
        above: The share of the axes' height that is taken above them.
    """
    weight = "bold" if bold else "normal"
    look: dict[str, Any] = {"fontsize": 10.5, "fontweight": weight, "color": text_colour(axes), "parse_math": False}
    axes.set_title(text, loc="left", y=1 + above, **look)
