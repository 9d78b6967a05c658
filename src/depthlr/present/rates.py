"""The rate to use at each size of a study, and at deeper ones that were not run, with how sure it is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from depthlr.errors import DepthlrError
from depthlr.law.fit import Fit, Point
from depthlr.law.power import transfer
from depthlr.present.intervals import seed_interval
from depthlr.study.curves import Curve
from depthlr.study.results import Over, Results

DEEPER = (2, 4, 8)  # sizes that a fit is carried to, besides those still to be run: multiples of the largest


@dataclass(frozen=True)
class RateRow:
    """The rate to use at one size: measured, with the seeds' interval, or carried there by the fit (seeds = 0)."""

    size: int
    depth: float | None
    rate: float | None  # None where no seed has an optimum inside the range
    interval: tuple[float, float] | None
    seeds: int
    left_out: int  # seeds whose optimum the range cut off, or that have none
    loss: float | None
    fitted: float | None
    law: float | None  # carried from the shallowest size that has a rate, by depth^-3/2
    doubt: str | None = None  # why the rate says little, if it does


def rate_rows(results: Results, curves: Sequence[Curve], slopes: Mapping[Over, Fit | None]) -> tuple[RateRow, ...]:
    """One a size that has a finished cell, then the deeper ones that the fit can speak of."""
    over: Over = "depth" if results.depths else "size"
    fit, spacing = slopes[over], results.study.search.spacing
    places: Mapping[int, float] = results.depths or {size: size for size in results.study.model.sizes}
    by_size: dict[int, list[Curve]] = {}
    for curve in curves:
        by_size.setdefault(curve.size, []).append(curve)
    rows: list[RateRow] = []
    start: tuple[float, float] | None = None  # where the law sets out: the shallowest place with a rate
    for size, found in sorted(by_size.items()):
        best = results.inside(size)
        logs = [math.log10(optimum.rate) for optimum in best]
        rate = results.tuned_rates.get(size)
        place = places.get(size)
        if start is None and rate is not None and place is not None:
            start = (place, rate)
        rows.append(
            RateRow(
                size,
                depth=None if results.depths is None else place,
                rate=rate,
                interval=_seeds_span(logs, spacing),
                seeds=len(best),
                left_out=len(found) - len(best),
                loss=statistics.fmean(optimum.loss for optimum in best) if best else None,
                fitted=None if fit is None or place is None else _held(partial(fit.predict, place)),
                law=_law(start, place),
                doubt=results.doubts.get(size),
            )
        )
    if fit is None:
        return tuple(rows)
    sizes = results.study.model.sizes
    for size in [*sizes, *(factor * sizes[-1] for factor in DEEPER)]:
        if size <= max(by_size):
            continue
        place = _place(places, size)
        rate = None if place is None else _held(partial(fit.predict, place))
        if place is not None and rate is not None:
            depth = None if results.depths is None else place
            rows.append(RateRow(size, depth, rate, fit_span(fit, place), 0, 0, None, rate, _law(start, place)))
    return tuple(rows)


def fit_span(fit: Fit, depth: float) -> tuple[float, float] | None:
    """The interval of the line's own rate at a depth, if the fit has one."""
    ends = fit.band([depth])
    return None if ends is None else (float(ends[0][0]), float(ends[1][0]))


def _seeds_span(logs: Sequence[float], spacing: float) -> tuple[float, float] | None:
    if not logs:
        return None
    sd = statistics.stdev(logs) if len(logs) > 1 else None
    return seed_interval(Point(1.0, statistics.fmean(logs), sd, len(logs)), spacing)


def _law(start: tuple[float, float] | None, place: float | None) -> float | None:
    return None if start is None or place is None else _held(partial(transfer, start[1], start[0], place))


def _held(rate: Callable[[], float]) -> float | None:
    """A rate that is carried far, or None where no float holds it."""
    try:
        return rate()
    except DepthlrError:
        return None


def _place(places: Mapping[int, float], size: int) -> float | None:
    """The depth of a size: as counted, or where the counted ones lie on a straight line, on that; else None."""
    if size in places:
        return places[size]
    if len(places) < 2:
        return None
    (first, low), *_, (last, high) = sorted(places.items())
    step = (high - low) / (last - first)
    straight = all(math.isclose(low + step * (known - first), place) for known, place in places.items())
    return low + step * (size - first) if straight else None
