"""How far a sweep is: the cells that are likely still to come, and who is told as cells finish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from depthlr.study.description import Search
from depthlr.study.record import Record
from depthlr.training.cell import Cell

PRIOR_CELLS = 9.5  # cells the adaptive search takes for a size and seed on smooth curves (experiments/speed/search.py)
PRIOR_PAIRS = 2  # the weight of PRIOR_CELLS in the mean, in pairs of size and seed
LEAST_CELLS = 2  # the fewest cells that a pair of size and seed takes, at the edge of the grid


@dataclass(frozen=True)
class Estimate:
    """Cells still to run; `seconds` is for the likely number, as if run one by one, and None before the first."""

    least: int
    likely: int
    most: int
    seconds: float | None


class Progress:
    """Receives the events of a sweep. This class ignores them; a subclass shows them."""

    def begins(self, known: Sequence[Record], damaged: Sequence[Cell], estimate: Estimate) -> None:
        """The sweep begins.

        Args:
            known: The cells that an earlier run finished.
            damaged: The cells whose records cannot be trusted.
            estimate: What is still to come.
        """

    def finished(self, record: Record, estimate: Estimate) -> None:
        """A cell is done and kept.

        Args:
            record: The cell.
            estimate: What is still to come.
        """


class CellCounts:
    """Counts of cells by size, from which the estimate is made.

    Args:
        search: The grid and the seeds.
        sizes: The sizes, ascending.
    """

    def __init__(self, search: Search, sizes: Sequence[int]) -> None:
        self._search, self._sizes = search, sizes
        self.missing: Counter[int] = Counter()
        self._done: Counter[int] = Counter()
        self._asked: Counter[int] = Counter()  # done or missing; without the pair that scans the grid
        self._seeds: dict[int, set[int]] = {}  # by size, the seeds of the cells in `_asked`
        self._seconds, self._layers = 0.0, 0

    def finish(self, cell: Cell, seconds: float | None, *, asked: bool = False) -> None:
        """Count a finished cell.

        Args:
            cell: The cell.
            seconds: How long it took, if that is known.
            asked: It was counted as missing until now.
        """
        self._done[cell.size] += 1
        if asked:
            self.missing[cell.size] -= 1
        else:
            self._count_asked(cell)
        if seconds is not None:
            self._seconds += seconds
            self._layers += cell.size

    def add_missing(self, cells: Iterable[Cell]) -> None:
        """Count the cells of a new wave, which are missing.

        Args:
            cells: The cells that are not trained yet.
        """
        for cell in cells:
            self.missing[cell.size] += 1
            self._count_asked(cell)

    def _count_asked(self, cell: Cell) -> None:
        """Count a cell that the search asked for, without the pair of size and seed that scans the grid."""
        if (cell.size, cell.seed) != (self._sizes[0], self._search.seeds[0]):
            self._asked[cell.size] += 1
            self._seeds.setdefault(cell.size, set()).add(cell.seed)

    def estimate(self) -> Estimate:
        """How many cells are still to come. The cost of a cell is assumed to be proportional to its size."""
        now = next((size for size in self._sizes if self.missing[size]), None)
        if now is None:
            return Estimate(0, 0, 0, 0.0 if self._layers else None)
        search, each = self._search, len(self._search.seeds)
        left = {size: search.points * each - self._done[size] for size in self._sizes if size >= now}
        if search.kind == "grid":
            likely, least = left, sum(left.values())
        else:
            before = [size for size in self._seeds if size < now]
            pairs = sum(len(self._seeds[size]) for size in before)
            finished = sum(self._asked[size] for size in before), pairs
            at_work = finished[0] + self._asked[now], pairs + len(self._seeds.get(now, ()))
            # A size that is not finished counts once its pairs took more than those of the others.
            a_size = round(each * max(mean_cells(*finished), mean_cells(*at_work)))
            likely = {size: min(most, a_size) for size, most in left.items()}
            likely[now] = min(left[now], max(self.missing[now], a_size - self._done[now]))
            least = self.missing[now] + sum(min(LEAST_CELLS * each, left[size]) for size in left if size != now)
        seconds = None
        if self._layers:
            seconds = self._seconds / self._layers * sum(size * count for size, count in likely.items())
        return Estimate(least, sum(likely.values()), sum(left.values()), seconds)


def mean_cells(cells: int, pairs: int) -> float:
    """How many cells a size and seed are expected to take.

    Args:
        cells: The cells that other pairs of size and seed took.
        pairs: The number of these pairs.
    """
    return (PRIOR_PAIRS * PRIOR_CELLS + cells) / (PRIOR_PAIRS + pairs)
