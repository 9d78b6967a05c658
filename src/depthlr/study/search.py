"""Which cells to train next, as a function of the known losses, and an estimate of what is still to come.

A plan yields waves of cells. It gets only the losses it asked for, and only in whole waves. The cells therefore do not
depend on the order in which they finish, or on interruptions: a resumed sweep trains the same cells. `SearchState`
continues from wave to wave, at a cost per cell that does not grow with their number. `missing_cells` replays the plan
from the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from depthlr.study.adaptive import Plan, adaptive
from depthlr.study.description import Search, Study
from depthlr.study.record import Record
from depthlr.training.cell import Cell


def exhaustive(search: Search, sizes: Sequence[int]) -> Plan:
    """One wave: no cell depends on another, so cells of several sizes may be trained at once.

    Args:
        search: The grid and the seeds.
        sizes: The sizes, ascending.
    """
    yield [Cell(size, seed, rate) for size in sizes for seed in search.seeds for rate in search.rates]


PLANS: dict[str, Callable[[Search, Sequence[int]], Plan]] = {"grid": exhaustive, "adaptive": adaptive}


class SearchState:
    """A search with the losses that are known so far.

    Args:
        search: The grid, the seeds and the kind of search.
        sizes: The sizes of the models, in any order.
    """

    def __init__(self, search: Search, sizes: Iterable[int]) -> None:
        self._losses: dict[Cell, float] = {}
        self._counts = CellCounts(search, sorted(sizes))
        self._plan = PLANS[search.kind](search, sorted(sizes))
        self._wave: list[Cell] = []
        self._missing: dict[Cell, None] = {}
        self._advance()

    @property
    def missing(self) -> list[Cell]:
        """The cells of the current wave that are still to be run, small sizes first; none when the search is over."""
        return list(self._missing)

    def __len__(self) -> int:
        """How many losses are known."""
        return len(self._losses)

    def add(self, cell: Cell, loss: float, seconds: float | None = None) -> None:
        """Add a loss. After the last one of a wave, `missing` is the next wave.

        Args:
            cell: The trained cell. One that the search does not ask for changes nothing.
            loss: Its loss, infinite if it diverged.
            seconds: How long it took, if that is known.
        """
        if cell not in self._losses:
            self._counts.finish(cell, seconds, asked=cell in self._missing)
        self._losses[cell] = loss
        if cell in self._missing:
            del self._missing[cell]
            if not self._missing:
                self._advance()

    def nothing_missing(self, size: int) -> bool:
        """Whether the current wave asks for no more cells of a size.

        Args:
            size: The size.
        """
        return not self._counts.missing[size]

    def estimate(self) -> Estimate:
        """How many cells are still to come, and how long they take."""
        return self._counts.estimate()

    def _advance(self) -> None:
        """On to the first wave that has a cell whose loss is not known."""
        try:
            while not self._missing:
                # A generator that has not started cannot be sent losses.
                losses = {cell: self._losses[cell] for cell in self._wave}
                self._wave = self._plan.send(losses) if self._wave else next(self._plan)
                self._missing = {cell: None for cell in self._wave if cell not in self._losses}
        except StopIteration:
            self._wave = []
        self._counts.add_missing(self._missing)


def missing_cells(search: Search, sizes: Sequence[int], known: Mapping[Cell, float]) -> list[Cell]:
    """The cells of the current wave that are not trained yet. There are none when the search is finished.

    Args:
        search: How to search.
        sizes: The sizes of the study.
        known: The loss of every trained cell.
    """
    state = SearchState(search, sizes)
    for cell, loss in known.items():
        state.add(cell, loss)
    return state.missing


def search_state(study: Study, records: Iterable[Record]) -> SearchState:
    """The search of a study.

    Args:
        study: The study.
        records: Its finished cells.
    """
    state = SearchState(study.search, study.model.sizes)
    for record in records:
        state.add(record.cell, record.loss, record.seconds)
    return state


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
        self._pairs: Counter[tuple[int, int]] = Counter()  # done or missing, by size and seed
        self._seconds, self._timed_sizes = 0.0, 0  # summed over the cells whose time is known

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
            self._pairs[cell.size, cell.seed] += 1
        if seconds is not None:
            self._seconds += seconds
            self._timed_sizes += cell.size

    def add_missing(self, cells: Iterable[Cell]) -> None:
        """Count the cells of a new wave, which are missing.

        Args:
            cells: The cells that are not trained yet.
        """
        for cell in cells:
            self.missing[cell.size] += 1
            self._pairs[cell.size, cell.seed] += 1

    def estimate(self) -> Estimate:
        """How many cells are still to come. The cost of a cell is assumed to be proportional to its size."""
        current = next((size for size in self._sizes if self.missing[size]), None)
        if current is None:
            return Estimate(0, 0, 0, 0.0 if self._timed_sizes else None)
        seeds = len(self._search.seeds)
        most = {size: self._search.points * seeds - self._done[size] for size in self._sizes if size >= current}
        least = likely = most
        if self._search.kind != "grid":
            each = round(seeds * self._cells_per_pair(current))
            least = {size: min(count, LEAST_CELLS * seeds) for size, count in most.items()}
            likely = {size: min(count, each) for size, count in most.items()}
            least[current] = self.missing[current]
            likely[current] = min(most[current], max(self.missing[current], each - self._done[current]))
        seconds = None
        if self._timed_sizes:
            seconds = self._seconds / self._timed_sizes * sum(size * count for size, count in likely.items())
        return Estimate(sum(least.values()), sum(likely.values()), sum(most.values()), seconds)

    def _cells_per_pair(self, current: int) -> float:
        """The mean number of cells of a pair of size and seed, without the first pair, which scans the grid."""
        first = self._sizes[0], self._search.seeds[0]
        cells = {pair: count for pair, count in self._pairs.items() if pair != first}
        finished = [count for (size, _), count in cells.items() if size < current]
        begun = [count for (size, _), count in cells.items() if size <= current]
        # The pairs of a size that is not finished count once they took more than those of the others.
        return max(mean_cells(sum(finished), len(finished)), mean_cells(sum(begun), len(begun)))


def mean_cells(cells: int, pairs: int) -> float:
    """How many cells a size and seed are expected to take.

    Args:
        cells: The cells that other pairs of size and seed took.
        pairs: The number of these pairs.
    """
    return (PRIOR_PAIRS * PRIOR_CELLS + cells) / (PRIOR_PAIRS + pairs)
