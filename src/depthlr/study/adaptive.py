"""The grid's optimum from about a tenth of its cells: start near it, then run every rate that could still be better.

A curve of loss against log rate falls gently, is rough over a few grid steps around its minimum, and rises steeply on
the right until training diverges. The search has four parts:

1. start: the smallest size scans the grid on its first seed, every 16th of 80 rates, then halves the stride around the
   best. A deeper size extrapolates the shallower ones' optima along a power law.
2. opening: every seed runs the start and two steps to either side of it.
3. walk: from a seed's best rate outwards on both sides, rate by rate. A side ends when two rates in a row (or one, far
   above) exceed the best by more than the roughness of the curve, or after six rates. A new best restarts the walk.
4. exchange: if seeds end half a decade apart, each tries the others' best rates, and walks on from one that is better.
   Otherwise a dip near divergence could pass for an optimum.

The roughness is measured: the distance of a loss from the line through its neighbours, near the optima of this size and
the one before. A smooth landscape costs few cells, a rough one more. `experiments/speed/search.py` measures the search.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence

from depthlr.study.description import Search
from depthlr.training.cell import Cell

Plan = Generator[list[Cell], Mapping[Cell, float], None]
"""Yields a wave of cells, small sizes first; is sent the losses of that whole wave before it decides on the next."""

LossByIndex = dict[int, float]  # loss by index into the grid
Points = list[tuple[int, int]]  # which seed, by its place in the search, and which rate, by its index

OPENING = (-2, 0, 2)
IN_A_ROW = 2  # losses above the bar, one after the other, that end the walk
BAR = 2.0  # roughnesses above the best loss
DOUBTLESS = 6.0  # roughnesses above the best loss at which a single loss ends the walk
MOST_STEPS_AWAY = 6  # from the best, where the walk ends: on the roughest curves a better loss farther away is luck
BOTTOM = 4  # grid steps around an optimum in which roughness is measured
SMOOTH, UNKNOWN = 3e-4, 5e-3  # the least roughness of log loss, and the one assumed before three places show it
WIDE_GAP = 4  # a gap of this many steps beside the best is halved, not walked
APART = 0.5  # decades between two seeds' optima that are not the same valley's
SLOPE, SLOPE_WEIGHT = -1.0, 0.04  # rate ~ size^-1 give or take 1/2, against optima that scatter by 0.1 decades
REMEMBERED = 3  # sizes the extrapolation looks back on


def adaptive(search: Search, sizes: Sequence[int]) -> Plan:
    """A plan that goes from small to large sizes. Each size starts from the optima of the smaller ones.

    Args:
        search: The grid and the seeds.
        sizes: The sizes, ascending.
    """
    optima: dict[int, float] = {}  # mean index of the seeds' optima
    before: list[LossByIndex] = []
    for size in sizes:
        curves: list[LossByIndex] = [{} for _ in search.seeds]
        start = predict_optimum(optima, size, search)
        if start is None:
            yield from _scan(search, size, curves)
            start = best_index(curves[0])
        wave = [(seed, _clip(start + step, search)) for seed in range(len(curves)) for step in OPENING]
        while wave:
            yield from _run(search, size, wave, curves)
            rough = roughness([*before, *curves])
            wave = [(seed, i) for seed, curve in enumerate(curves) for i in next_rates(curve, rough, search.points)]
            wave = wave or exchange_optima(curves, search)
        before = curves
        found = [best_index(curve) for curve in curves if math.isfinite(min(curve.values()))]
        if found:
            optima[size] = sum(found) / len(found)


def predict_optimum(optima: Mapping[int, float], size: int, search: Search) -> int | None:
    """The expected index of a size's optimum: a line through the last optima, with its slope shrunk towards -1.

    Args:
        optima: The optimum of each smaller size.
        size: The size.
        search: The grid.
    """
    if not optima:
        return None
    last = list(optima.items())[-REMEMBERED:]
    logs = [math.log10(shallower) for shallower, _ in last]
    decades = [index * search.spacing for _, index in last]
    x, y = sum(logs) / len(last), sum(decades) / len(last)
    covariance = sum((a - x) * (b - y) for a, b in zip(logs, decades, strict=True))
    slope = (SLOPE * SLOPE_WEIGHT + covariance) / (SLOPE_WEIGHT + sum((a - x) ** 2 for a in logs))
    return _clip(round((y + slope * (math.log10(size) - x)) / search.spacing), search)


def next_rates(curve: Mapping[int, float], rough: float, points: int) -> list[int]:
    """The next rates of one seed's curve that could still be better than its best.

    Args:
        curve: The known losses, by index into the grid.
        rough: The roughness of the log loss.
        points: The number of rates in the grid.
    """
    known = sorted(curve)
    centre = best_index(curve)
    if curve[centre] == math.inf:  # nothing trained yet: go down, twice as far each time
        return [max(0, known[0] - (known[-1] - known[0] + 1))] if known[0] > 0 else []
    wave = []
    for side in (-1, 1):
        gaps = sorted((index - centre) * side for index in known if (index - centre) * side > 0)
        end = centre if side < 0 else points - 1 - centre
        if not gaps:  # the best lies at the end of what is known: go on as far as the nearest one on the other side
            nearest = min((abs(index - centre) for index in known if index != centre), default=1)
            steps = [min(nearest, end)] if end else []
        elif gaps[0] >= WIDE_GAP:
            steps = [gaps[0] // 2]
        else:
            steps = _walk(curve, centre, side, end, rough)
        wave += [centre + side * step for step in steps]
    return wave


def exchange_optima(curves: Sequence[Mapping[int, float]], search: Search) -> Points:
    """The best rates of other seeds, for those seeds that ended far from them and have not run them.

    Args:
        curves: One curve per seed.
        search: The grid and the seeds.
    """
    optima = {best_index(curve) for curve in curves if math.isfinite(min(curve.values()))}
    return [
        (seed, other)
        for seed, curve in enumerate(curves)
        for other in sorted(optima - set(curve))
        if abs(other - best_index(curve)) * search.spacing > APART
    ]


def roughness(curves: Sequence[Mapping[int, float]]) -> float:
    """Root mean square distance of a log loss from the line through its two neighbours, near the curves' optima.

    Scaled by what three equally noisy points would show, so it estimates the jitter of one.

    Args:
        curves: The known losses of each seed, by index into the grid.
    """
    squares = []
    for curve in curves:
        if not curve or curve[centre := best_index(curve)] == math.inf:
            continue
        near = [i for i in sorted(curve) if abs(i - centre) <= BOTTOM and curve[i] < math.inf]
        for left, middle, right in zip(near, near[1:], near[2:], strict=False):
            if right - left <= BOTTOM:
                share = (middle - left) / (right - left)
                line = (1 - share) * _log(curve[left]) + share * _log(curve[right])
                squares.append((_log(curve[middle]) - line) ** 2 / (1 + share**2 + (1 - share) ** 2))
    return UNKNOWN if len(squares) < 3 else max(SMOOTH, math.sqrt(sum(squares) / len(squares)))


def best_index(curve: Mapping[int, float]) -> int:
    """The index of the least loss, the smaller rate of equals.

    Args:
        curve: The known losses, by index into the grid.
    """
    return min(curve, key=lambda index: (curve[index], index))


def _walk(curve: Mapping[int, float], centre: int, side: int, end: int, rough: float) -> list[int]:
    """How many steps from the best the next rates to run are; none where the walk has ended."""
    above, reach = 0, min(end, MOST_STEPS_AWAY)
    for step in range(1, reach + 1):
        loss = curve.get(centre + side * step)
        if loss is None:  # ask at once for as many as it takes at least to end
            ahead = range(step, min(step + IN_A_ROW - above, reach + 1))
            return [farther for farther in ahead if centre + side * farther not in curve]
        excess = (_log(loss) - _log(curve[centre])) / rough
        above = above + 1 if excess > BAR else 0
        if above == IN_A_ROW or excess > DOUBTLESS:
            return []
    return []


def _scan(search: Search, size: int, curves: list[LossByIndex]) -> Generator[list[Cell], Mapping[Cell, float], None]:
    """Scan with the first seed, coarse to fine, down to every other rate around the best. If all diverged, go down."""
    stride = 1
    while stride * 2 * 5 <= search.points:
        stride *= 2
    yield from _run(search, size, [(0, index) for index in range(stride // 2, search.points, stride)], curves)
    while stride > 2:
        stride //= 2
        centre = best_index(curves[0])
        yield from _run(search, size, [(0, _clip(centre + step, search)) for step in (-stride, stride)], curves)


def _run(
    search: Search, size: int, points: Points, curves: list[LossByIndex]
) -> Generator[list[Cell], Mapping[Cell, float], None]:
    """Ask for those points that are new, and enter their losses into the curves."""
    new = {
        (seed, index): Cell(size, search.seeds[seed], search.rates[index])
        for seed, index in points
        if index not in curves[seed]
    }
    if new:
        losses = yield list(new.values())
        for (seed, index), cell in new.items():
            curves[seed][index] = losses[cell]


def _clip(index: int, search: Search) -> int:
    return min(max(index, 0), search.points - 1)


def _log(loss: float) -> float:
    """Of a loss that may be infinite, or zero in a run that learnt its data by heart."""
    return math.inf if loss == math.inf else math.log(max(loss, 1e-30))
