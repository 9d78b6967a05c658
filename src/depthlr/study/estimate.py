"""How much of a sweep is still to come: bounds on its cells, a likely number, and seconds once some were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from depthlr.study.description import Search
from depthlr.study.search import wanted
from depthlr.training.cell import Cell

LIKELY = 8.5  # cells the adaptive search takes for a size and seed (benchmarks/search.py)
LEAST = 2  # what it takes at the lower edge of the grid


@dataclass(frozen=True)
class Estimate:
    """Cells still to run; `seconds` is for the likely number, as if run one by one, and None before the first."""

    least: int
    likely: int
    most: int
    seconds: float | None


def estimate(
    search: Search, sizes: Sequence[int], known: Mapping[Cell, float], seconds: Mapping[Cell, float]
) -> Estimate:
    """What is still to come after `known`; a cell is taken to cost in proportion to its size."""
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
        likely = {size: min(most, round(LIKELY * each)) for size, most in left.items()}
        done = search.points * each - left[now]
        likely[now] = min(left[now], max(len(missing), round(LIKELY * each) - done))
        least = len(missing) + LEAST * each * (len(left) - 1)
    spent = sum(cell.size for cell in seconds)
    a_size = sum(seconds.values()) / spent if spent else None
    return Estimate(
        least=least,
        likely=sum(likely.values()),
        most=sum(left.values()),
        seconds=None if a_size is None else a_size * sum(size * count for size, count in likely.items()),
    )
