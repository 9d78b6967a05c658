"""What to run next, as a function of what is known, and how much is still to come.

A search replays itself from the start, wave by wave. A plan is told only the losses it asked for, and only in whole
waves. So the cells it asks for do not depend on the order in which they finish, or on when a sweep was interrupted:
a resumed sweep ends with the very same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from depthlr.study.adaptive import Plan, adaptive
from depthlr.study.description import Search
from depthlr.training.cell import Cell


def exhaustive(search: Search, sizes: Sequence[int]) -> Plan:
    """One wave a size."""
    for size in sizes:
        yield [Cell(size, seed, rate) for seed in search.seeds for rate in search.rates]


PLANS: dict[str, Callable[[Search, Sequence[int]], Plan]] = {"grid": exhaustive, "adaptive": adaptive}


def wanted(search: Search, sizes: Sequence[int], known: Mapping[Cell, float]) -> list[Cell]:
    """The cells of the current wave that are still to be run, all of one size; none when the search is finished."""
    plan = PLANS[search.kind](search, sorted(sizes))
    try:
        wave = next(plan)
        while True:
            missing = [cell for cell in wave if cell not in known]
            if missing:
                return missing
            wave = plan.send({cell: known[cell] for cell in wave})
    except StopIteration:
        return []


LIKELY = 9.5  # cells the adaptive search takes for a size and seed on smooth curves (experiments/speed/search.py)
TRUST = 2  # pairs of size and seed that this number counts as, beside those of the sweep itself
LEAST = 2  # what it takes at the lower edge of the grid


@dataclass(frozen=True)
class Estimate:
    """Cells still to run; `seconds` is for the likely number, as if run one by one, and None before the first."""

    least: int
    likely: int
    most: int
    seconds: float | None


def estimate(
    search: Search,
    sizes: Sequence[int],
    known: Mapping[Cell, float],
    seconds: Mapping[Cell, float],
    missing: Sequence[Cell] | None = None,
) -> Estimate:
    """What is still to come after `known`; a cell is taken to cost in proportion to its size.

    `missing` is what the search wants next, where that was worked out already.
    """
    if missing is None:
        missing = wanted(search, sizes, known)
    if not missing:
        return Estimate(0, 0, 0, 0.0 if seconds else None)
    now = missing[0].size
    each = len(search.seeds)
    left = {size: search.points * each for size in sizes if size >= now}
    for cell in known:
        if cell.size in left:
            left[cell.size] -= 1
    if search.kind == "grid":
        likely, least = left, sum(left.values())
    else:
        a_size = round(each * cells_a_pair(*_taken(search, sizes, [*known, *missing], now)))
        likely = {size: min(most, a_size) for size, most in left.items()}
        done = search.points * each - left[now]
        likely[now] = min(left[now], max(len(missing), a_size - done))
        least = len(missing) + LEAST * each * (len(left) - 1)
    spent = sum(cell.size for cell in seconds)
    a_layer = sum(seconds.values()) / spent if spent else None
    return Estimate(
        least=least,
        likely=sum(likely.values()),
        most=sum(left.values()),
        seconds=None if a_layer is None else a_layer * sum(size * count for size, count in likely.items()),
    )


def cells_a_pair(finished: Sequence[int], at_work: Sequence[int] = ()) -> float:
    """What a size and seed will take, from what finished pairs took; those at work count once they took more."""
    return max(_blended(finished), _blended([*finished, *at_work]))


def _blended(cells: Sequence[int]) -> float:
    return (TRUST * LIKELY + sum(cells)) / (TRUST + len(cells))


def _taken(search: Search, sizes: Sequence[int], cells: Iterable[Cell], now: int) -> tuple[list[int], list[int]]:
    """Cells of every pair that is finished, and of those at work."""
    pairs = Counter((cell.size, cell.seed) for cell in cells)
    pairs.pop((min(sizes), search.seeds[0]), None)  # it scans the grid for all the others
    finished = [count for (size, _), count in pairs.items() if size < now]
    return finished, [count for (size, _), count in pairs.items() if size == now]
