"""The weighted line through log10(rate) against log10(depth), with an interval for its slope (Sec. Experiments).

Weights. The paper weights each depth by one over its sample variance. With three seeds that variance is so noisy that
over 20 depths the 95 % interval holds the true slope 73 % of the time (`coverage` in tests/law/test_fit.py). So each
depth's variance is averaged with the pooled one, which counts as `pooling` further degrees of freedom (0: the paper's
weights). A depth with one seed, or whose seeds all agree, uses the pooled variance. A grid of `spacing` decades adds a
floor: it rounds an optimum with variance spacing^2 / 12. Seeds that agree share that rounding, so the floor applies to
their mean. If no variance is known, the line is unweighted.

Interval. The slope's error is estimated twice: from the seeds (t with the seeds' degrees of freedom) and from the
scatter of the depths about the line (t with depths - 2). The wider interval counts. The standard error is the seeds'
one times max(1, sqrt(reduced chi^2)), the Birge factor. Two depths have no scatter, and one seed has no spread: if
neither estimate exists, the interval is infinite.

Band. At the weighted centre of log10 depth the line's height and slope err independently, so the line's own error at x
is half^2 = half_slope^2 ((x - centre)^2 + spread^2), with spread the weighted deviation of log10 depth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from sys import float_info

import numpy as np
from numpy.typing import NDArray

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.formatting import html_table, signed
from depthlr.law.rules import transfer_by_power

POOLING = 2.0  # degrees of freedom by which the pooled variance counts in each depth's
WIDE_EXPONENT = 1.0  # a longer interval cannot tell the law from half a power more or less
_LONGEST = 300.0  # decades: a band that reaches further ends there, where floats do
_SAME = 1e-9  # optima this close in decades are one grid point, written down with different rounding

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """The optima of one depth: mean and standard deviation of log10(rate). One observation has no deviation."""

    depth: float
    log10_rate: float
    sd: float | None
    observations: int


@dataclass(frozen=True)
class Fit:
    """rate = 10^intercept * depth^slope, the slope's error and interval, and the fitted points."""

    slope: float
    stderr: float
    interval: tuple[float, float]
    level: float
    intercept: float
    r2: float | None  # None from two depths, through which any line goes
    chi2: float | None  # scatter about the line over what the seeds allow, a degree of freedom; None if not known
    points: tuple[Point, ...]
    centre: float  # weighted mean of log10 depth, where the line is surest
    spread: float  # weighted deviation of log10 depth about it

    @property
    def depths(self) -> int:
        """How many distinct depths were fitted."""
        return len(self.points)

    @property
    def observations(self) -> int:
        """How many optima were fitted, over all depths and seeds."""
        return sum(point.observations for point in self.points)

    @property
    def bounded(self) -> bool:
        """Is the slope's interval known?"""
        return math.isfinite(self.interval[1] - self.interval[0])

    @property
    def is_wide(self) -> bool:
        """Is the interval too long to tell the law from half a power more or less?"""
        return not self.interval[1] - self.interval[0] <= WIDE_EXPONENT

    @property
    def r2_text(self) -> str:
        """`, R² 0.98`, to append to a slope. It is empty if R² is not known."""
        return "" if self.r2 is None else f", R² {self.r2:.2f}"

    def predict(self, depth: float) -> float:
        """The line's rate at a depth.

        Args:
            depth: Any depth above 0, inside or outside the fitted ones.
        """
        decades = self.intercept + self.slope * math.log10(check.positive("The depth", depth))
        if not float_info.min_10_exp <= decades <= float_info.max_10_exp:
            raise DepthlrError(
                f"The line's rate at depth {depth:g} is 10^{decades:.0f}, beyond what a float holds: choose a depth "
                "nearer to those that were fitted."
            )
        return float(10**decades)

    def by_law(self, depth: float) -> float:
        """The rate at a depth on the line of the law's slope, -3/2, that crosses this one at the centre.

        Args:
            depth: Any depth above 0.
        """
        middle = 10**self.centre
        return transfer_by_power(self.predict(middle), middle, depth)

    def band(self, depths: Sequence[float]) -> tuple[Array, Array] | None:
        """Lowest and highest rate of the line at each depth, by the fit's level; None if its interval is infinite.

        Args:
            depths: Any depths above 0.
        """
        if not self.bounded:
            return None
        half_slope = (self.interval[1] - self.interval[0]) / 2
        x = np.log10(np.asarray(depths, dtype=np.float64))
        line, half = self.intercept + self.slope * x, half_slope * np.hypot(x - self.centre, self.spread)
        return 10 ** np.clip(line - half, -_LONGEST, _LONGEST), 10 ** np.clip(line + half, -_LONGEST, _LONGEST)

    def interval_at(self, depth: float) -> tuple[float, float] | None:
        """Lowest and highest rate of the line at a depth, by the fit's level; None if its interval is infinite."""
        edges = self.band([depth])
        return None if edges is None else (float(edges[0][0]), float(edges[1][0]))

    def __str__(self) -> str:
        low, high = self.interval
        error = f" ± {self.stderr:.2f}" if math.isfinite(self.stderr) else ""
        span = f"{self.level * 100:g}% {low:.2f}..{high:.2f}" if self.bounded else "no interval: add seeds or depths"
        return f"slope {self.slope:.2f}{error} ({span}){self.r2_text}, {self.depths} depths"

    def _repr_html_(self) -> str:
        rows = [(f"{p.depth:g}", f"{10**p.log10_rate:.3g}", f"{p.sd or 0:.3f}", p.observations) for p in self.points]
        return html_table(str(self), ("depth", "rate", "sd (decades)", "seeds"), rows)


def slope_text(fit: Fit) -> str:
    """A slope and its interval as text: `slope −1.30 (95 % −1.50 to −1.10)`.

    Args:
        fit: The fitted line.
    """
    if not fit.bounded:
        return f"slope {signed(fit.slope)} (no interval)"
    low, high = fit.interval
    return f"slope {signed(fit.slope)} ({fit.level * 100:g} % {signed(low)} to {signed(high)})"


def fit_power_law(
    depths: Sequence[float],
    rates: Sequence[float],
    *,
    spacing: float | None = None,
    level: float = 0.95,
    pooling: float = POOLING,
) -> Fit:
    """Fit log10(rate) = intercept + slope * log10(depth) to optima.

    Args:
        depths: The depth of each observation. Several observations may have the same depth.
        rates: The optimal rate of each observation.
        spacing: The grid's step in decades, if the rates come from a grid.
        level: The confidence of the interval.
        pooling: Degrees of freedom by which the pooled variance counts. 0 gives the paper's weights.

    Returns:
        The line, its interval and the points.

    Raises:
        DepthlrError: There are fewer than two depths, or a value is out of range.
    """
    floor = 0.0 if spacing is None else check.positive("The spacing", spacing) ** 2 / 12
    borrowed = check.finite("The pooling", pooling, least=0)
    if not 0 < check.positive("The level", level) < 1:
        raise DepthlrError(f"The level must lie between 0 and 1, not {level!r}: 0.95 is usual.")
    points = _points(depths, rates)
    seeds_freedom = sum(point.observations - 1 for point in points)
    variances = np.maximum(_mean_variances(points, borrowed), floor)
    known = bool(variances.max() > 0)
    # The least-squares line through the points, each weighted by one over its variance.
    x = np.log10([point.depth for point in points])
    y = np.array([point.log10_rate for point in points])
    weight = 1 / (variances if known else np.ones_like(variances))
    x_mean, y_mean = np.average(x, weights=weight), np.average(y, weights=weight)
    dx, dy = x - x_mean, y - y_mean  # centred, so a narrow range of depths loses no digits
    spread = float(weight @ dx**2)
    slope = float(weight @ (dx * dy)) / spread
    left = float(weight @ (dy - slope * dx) ** 2)
    stderr = 1 / math.sqrt(spread)  # if the variances are true

    half_widths, errors, r2, chi2 = [], [], None, None
    if known:
        errors.append(stderr)
        if seeds_freedom or len(points) > 2:
            half_widths.append(stderr * student_quantile(level, seeds_freedom or math.inf))
    if len(points) > 2:
        freedom = len(points) - 2
        chi2 = left / freedom
        errors.append(stderr * math.sqrt(chi2))
        half_widths.append(errors[-1] * student_quantile(level, freedom))
        flat = bool(np.ptp(y) < _SAME)  # no variation, so none explained
        r2 = 0.0 if flat else 1 - left / float(weight @ dy**2)
    half = max(half_widths, default=math.inf)
    return Fit(
        slope=slope,
        stderr=max(errors, default=math.inf),
        interval=(slope - half, slope + half),
        level=level,
        intercept=float(y_mean - slope * x_mean),
        r2=r2,
        chi2=chi2 if known else None,
        points=points,
        centre=float(x_mean),
        spread=math.sqrt(spread / float(weight.sum())),
    )


def _points(depths: Sequence[float], rates: Sequence[float]) -> tuple[Point, ...]:
    """The observations by depth, shallow first."""
    if len(depths) != len(rates):
        raise DepthlrError(f"Each rate needs its depth, but there are {len(depths)} depths and {len(rates)} rates.")
    logs: dict[float, list[float]] = {}
    for index, (depth, rate) in enumerate(zip(depths, rates, strict=True)):
        key = check.positive(f"Depth {index} of the fit", depth)
        logs.setdefault(key, []).append(math.log10(check.positive(f"Rate {index} of the fit", rate)))
    if len({math.log10(depth) for depth in logs}) < 2:
        raise DepthlrError("A slope needs optima at two distinct depths or more: sweep another depth.")
    return tuple(_point(depth, np.array(logs[depth])) for depth in sorted(logs))


def _point(depth: float, logs: Array) -> Point:
    mean = float(logs.mean())
    if logs.size == 1:
        return Point(depth, mean, None, 1)
    sd = 0.0 if np.ptp(logs) < _SAME else float(logs.std(ddof=1))
    return Point(depth, mean, sd, logs.size)


def _mean_variances(points: Sequence[Point], pooling: float) -> Array:
    """The variance of each depth's mean, its seeds' own averaged with the pooled one; zeros when none is known."""
    freedom = np.array([point.observations - 1 for point in points], dtype=np.float64)
    own = np.array([(point.sd or 0.0) ** 2 for point in points])
    pooled = float(freedom @ own) / max(1.0, float(freedom.sum()))
    share = np.maximum(pooling + freedom, np.finfo(np.float64).tiny)  # one seed and no pooling: 0 / tiny, not 0 / 0
    averaged = (pooling * pooled + freedom * own) / share
    return np.where(averaged > 0, averaged, pooled) / (freedom + 1)


def student_quantile(level: float, freedom: float) -> float:
    """The two-sided quantile of Student's t; infinite degrees of freedom give the normal one.

    Args:
        level: The probability between minus and plus the quantile.
        freedom: The degrees of freedom.
    """
    from scipy.special import ndtri, stdtrit  # here, because `import depthlr` must not need scipy

    tail = (1 + level) / 2
    return float(ndtri(tail) if math.isinf(freedom) else stdtrit(freedom, tail))
