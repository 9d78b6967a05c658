"""What a study shows: its slopes against the law, the rate to use at each size, and the warnings."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from depthlr.errors import DepthlrError
from depthlr.formatting import signed
from depthlr.law.fit import Fit, Point
from depthlr.law.rules import LAW_EXPONENT, transfer_by_power
from depthlr.study.curves import Curve
from depthlr.study.follow import Snapshot
from depthlr.study.results import Over, Results

DEEPER = (2, 4, 8)  # multiples of the largest size at which the fit's rate is shown too
MOST_NOTES = 30
SEED_LEVEL = 0.95  # of intervals over seeds
Value = TypeVar("Value")


class Judgement(StrEnum):
    """How a fitted slope compares with a stated one."""

    holds = "holds"
    faster = "faster"
    slower = "slower"
    undecided = "undecided"


def judge_slope(fit: Fit, stated: float = LAW_EXPONENT) -> Judgement:
    """Compare the interval of the slope with the stated slope. A wide interval that contains it decides nothing.

    Args:
        fit: The fitted line.
        stated: The slope to compare with.
    """
    low, high = fit.interval
    if low <= stated <= high:
        return Judgement.undecided if fit.is_wide else Judgement.holds
    return Judgement.faster if high < stated else Judgement.slower


def verdict(fit: Fit) -> str:
    """One sentence: the slope agrees with the law, differs from it, or nothing is decided."""
    span = " to ".join(map(signed, fit.interval))
    match judge_slope(fit):
        case Judgement.holds:
            return f"Does not contradict the law: {span} contains −3/2."
        case Judgement.faster:
            return f"Falls faster than the law’s −3/2: use {signed(fit.slope)} ({span})."
        case Judgement.slower:
            return f"Falls more slowly than the law’s −3/2: use {signed(fit.slope)} ({span})."
        case Judgement.undecided if fit.bounded:
            return f"Undecided: {span} contains −3/2 and much else. Add seeds or depths."
    return "Undecided: the slope has no interval. Add seeds or a third depth."


def seed_interval(point: Point, spacing: float | None = None) -> tuple[float, float] | None:
    """Student's 95 % interval of the mean of log10 rate over seeds, as rates; None for a single seed.

    Args:
        point: Mean and standard deviation of log10 rate.
        spacing: The step of the grid of rates in decades; the interval extends at least half a step to each side.
    """
    if point.sd is None:
        return None
    from scipy.special import stdtrit  # here, because `import depthlr` must not need scipy

    freedom = point.observations - 1
    half = float(stdtrit(freedom, (1 + SEED_LEVEL) / 2)) * point.sd / math.sqrt(point.observations)
    half = max(half, (spacing or 0.0) / 2)
    return 10 ** max(point.log10_rate - half, -300.0), 10 ** min(point.log10_rate + half, 300.0)


@dataclass(frozen=True)
class RateRow:
    """The rate to use at one size: tuned, with its interval over seeds, or predicted by the fit."""

    size: int
    depth: float | None
    rate: float | None  # None if no seed has an optimum inside the range of rates
    interval: tuple[float, float] | None
    seeds: int
    left_out: int  # seeds without an optimum inside the range of rates
    loss: float | None
    fitted: float | None
    law: float | None  # carried from the shallowest size that has a rate, by depth^-3/2
    doubt: str | None = None  # why the rate is doubtful, if it is

    @property
    def carried(self) -> bool:
        """Whether the rate is the fit's prediction at a size that was not run."""
        return not self.seeds and not self.left_out


def seed_point(depth: float, rates: Sequence[float]) -> Point:
    """Mean and standard deviation over seeds of log10 rate.

    Args:
        depth: The depth of the seeds' models.
        rates: The seeds' best rates.
    """
    logs = [math.log10(rate) for rate in rates]
    sd = statistics.stdev(logs) if len(logs) > 1 else None
    return Point(depth, statistics.fmean(logs), sd, len(logs))


def rate_rows(results: Results, curves: Sequence[Curve], slopes: Mapping[Over, Fit | None]) -> tuple[RateRow, ...]:
    """One row for each size that has a finished cell, then rows for deeper sizes where the fit predicts a rate.

    Args:
        results: The study.
        curves: Its curves.
        slopes: Its fits.
    """
    fit = slopes["depth" if results.depths else "size"]
    sizes = results.study.model.sizes
    places: Mapping[int, float] = results.depths or {size: size for size in sizes}
    curves_of = Counter(curve.size for curve in curves)
    rows: list[RateRow] = []
    start: tuple[float, float] | None = None  # rate and depth from which the law starts: the shallowest that has a rate
    for size in [*sizes, *(factor * sizes[-1] for factor in DEEPER)]:
        place, rate = _depth_of(places, size), results.tuned_rates.get(size)
        if start is None and rate is not None and place is not None:
            start = (rate, place)
        fitted = by_law = None
        if fit is not None and place is not None:
            fitted = _or_none(fit.predict, place)
        if start is not None and place is not None:
            by_law = _or_none(transfer_by_power, *start, place)
        depth = place if results.depths else None
        if size in curves_of:
            best = results.inside(size)
            interval = loss = None
            if best:
                point = seed_point(1.0, [optimum.rate for optimum in best])
                interval = seed_interval(point, results.study.search.spacing)
                loss = statistics.fmean(optimum.loss for optimum in best)
            seeds, left_out, doubt = len(best), curves_of[size] - len(best), results.doubts.get(size)
            rows.append(RateRow(size, depth, rate, interval, seeds, left_out, loss, fitted, by_law, doubt))
        elif size > max(curves_of) and fit is not None and place is not None and fitted is not None:
            rows.append(RateRow(size, depth, fitted, fit.interval_at(place), 0, 0, None, fitted, by_law))
    return tuple(rows)


def _or_none(function: Callable[..., Value], *arguments: Any) -> Value | None:
    """What a function returns, or None where it cannot: no float holds the rate, or a line has too few points."""
    try:
        return function(*arguments)
    except DepthlrError:
        return None


def _depth_of(places: Mapping[int, float], size: int) -> float | None:
    """The depth of a size: as counted, or extrapolated if all counted depths lie on one straight line; else None."""
    if size in places:
        return places[size]
    if len(places) < 2:
        return None
    (first, low), *_, (last, high) = sorted(places.items())
    step = (high - low) / (last - first)
    straight = all(math.isclose(low + step * (known - first), place) for known, place in places.items())
    return low + step * (size - first) if straight else None


@dataclass(frozen=True)
class Findings:
    """What a study shows so far. A slope that cannot be fitted is None."""

    snapshot: Snapshot
    curves: tuple[Curve, ...]
    slopes: Mapping[Over, Fit | None]
    rows: tuple[RateRow, ...]
    notes: tuple[str, ...]
    to_come: int  # likely number of cells still to train; 0 when the study is finished

    @property
    def results(self) -> Results:
        return self.snapshot.results

    @property
    def over(self) -> Over:
        """Effective depth, or size if depths were not counted."""
        return "depth" if self.results.depths else "size"

    def name_of(self, over: Over) -> str:
        """`effective depth`, or what the study varies, such as `blocks`."""
        return "effective depth" if over == "depth" else self.results.study.model.size_name

    @property
    def verdict(self) -> str:
        """One sentence that compares the slope with the law's."""
        fit = self.slopes[self.over]
        if fit is None:
            return "No slope yet: a line needs optima inside the range of rates at two sizes or more."
        fitted = self.results.tuned_rates
        doubtful = sum(size in self.results.doubts for size in fitted)
        if not doubtful:
            return verdict(fit)
        return f"{verdict(fit)} But {doubtful} of {len(fitted)} sizes hardly learn or have no clear optimum."

    @property
    def law_from(self) -> str:
        """The depth, or size, from which the law starts in the table of rates."""
        first = next((row for row in self.rows if row.law is not None), None)
        if first is None:
            return ""
        return f"{first.size if first.depth is None else first.depth:g}"


def findings(snapshot: Snapshot) -> Findings:
    """Everything that a report shows, from the results so far."""
    results = snapshot.results
    curves, notes = results.curves, results.notes
    slopes: dict[Over, Fit | None] = {"depth": slope_of(results, "depth"), "size": slope_of(results, "size")}
    rows = rate_rows(results, curves, slopes) if curves else ()
    if len(notes) > MOST_NOTES:  # the last one says if a sweep is unfinished
        notes = (*notes[: MOST_NOTES - 1], f"and {len(notes) - MOST_NOTES} more of this kind", notes[-1])
    return Findings(snapshot, curves, slopes, rows, notes, to_come=results.search_state.estimate().likely)


def slope_of(results: Results, over: Over) -> Fit | None:
    """The line through the optima of a study, or None if it cannot be fitted: too few optima, or depths not counted.

    Args:
        results: The study.
        over: Effective depth, or the size that the study varies.
    """
    return _or_none(results.fit, over)
