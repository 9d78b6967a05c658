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
from depthlr.study.description import Search
from depthlr.training.cell import Cell


def exhaustive(search: Search, sizes: Sequence[int]) -> Plan:
    """One wave: no cell depends on another, so cells of several sizes may be trained at once."""
    yield [Cell(size, seed, rate) for size in sizes for seed in search.seeds for rate in search.rates]


PLANS: dict[str, Callable[[Search, Sequence[int]], Plan]] = {"grid": exhaustive, "adaptive": adaptive}
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


class SearchState:
    """A search with the losses that are known so far.

    Args:
        search: the grid, the seeds and the kind of search.
        sizes: the sizes of the models, in any order.
        known: losses by cell; cells that the search does not ask for change nothing.
        seconds: how long cells took, for the estimate.
    """

    def __init__(
        self,
        search: Search,
        sizes: Iterable[int],
        known: Mapping[Cell, float] | None = None,
        seconds: Mapping[Cell, float] | None = None,
    ) -> None:
        self._search, self._sizes = search, sorted(sizes)
        self._losses: dict[Cell, float] = {}
        self._count = _Count(search, self._sizes)
        self._plan = PLANS[search.kind](search, self._sizes)
        self._wave: list[Cell] = []
        self._missing: dict[Cell, None] = {}
        for cell, loss in (known or {}).items():
            self._keep(cell, loss, (seconds or {}).get(cell))
        self._advance()

    @property
    def missing(self) -> list[Cell]:
        """The cells of the current wave that are still to be run, small sizes first; none when the search is over."""
        return list(self._missing)

    def __len__(self) -> int:
        """How many losses are known."""
        return len(self._losses)

    def tell(self, cell: Cell, loss: float, seconds: float | None = None) -> bool:
        """Add a loss; True if that was the last one of a wave, so that `missing` is the next wave."""
        self._keep(cell, loss, seconds)
        if cell not in self._missing:
            return False
        del self._missing[cell]
        if self._missing:
            return False
        self._advance()
        return True

    def finished(self, size: int) -> bool:
        """Whether the current wave asks for no more cells of a size."""
        return not self._count.missing[size]

    def estimate(self) -> Estimate:
        """What is still to come; a cell is taken to cost in proportion to its size."""
        return self._count.estimate()

    def _keep(self, cell: Cell, loss: float, seconds: float | None) -> None:
        if cell not in self._losses:
            self._count.known(cell, seconds, was_missing=cell in self._missing)
        self._losses[cell] = loss

    def _advance(self) -> None:
        """On to the first wave that has a cell whose loss is not known."""
        try:
            while not self._missing:
                # A plan that was not started yet takes nothing but None.
                losses = {cell: self._losses[cell] for cell in self._wave}
                self._wave = self._plan.send(losses) if self._wave else next(self._plan)
                self._missing = {cell: None for cell in self._wave if cell not in self._losses}
        except StopIteration:
            self._wave = []
        self._count.ask(self._missing)


def missing_cells(search: Search, sizes: Sequence[int], known: Mapping[Cell, float]) -> list[Cell]:
    """The cells of the current wave that are not trained yet. There are none when the search is finished.

    Args:
        search: How to search.
        sizes: The sizes of the study.
        known: The loss of every trained cell.
    """
    return SearchState(search, sizes, known).missing


def estimate(
    search: Search,
    sizes: Sequence[int],
    known: Mapping[Cell, float],
    seconds: Mapping[Cell, float],
    missing: Sequence[Cell] | None = None,
) -> Estimate:
    """How many cells are still to come, and how long they take.

    Args:
        search: How to search.
        sizes: The sizes of the study.
        known: The loss of every trained cell.
        seconds: The training time of every trained cell.
        missing: What `missing_cells` returns, if it was computed before.
    """
    if missing is None:
        return SearchState(search, sizes, known, seconds).estimate()
    count = _Count(search, sorted(sizes))
    for cell in known:
        count.known(cell, seconds.get(cell), was_missing=False)
    count.ask(missing)
    return count.estimate()


class _Count:
    """Sums over the cells by size, from which the estimate is made."""

    def __init__(self, search: Search, sizes: Sequence[int]) -> None:
        self._search, self._sizes = search, sizes
        self.missing: Counter[int] = Counter()
        self._done: Counter[int] = Counter()
        self._asked: Counter[int] = Counter()  # done or missing, without the pair that scans the grid for the others
        self._seeds: dict[int, set[int]] = {}  # of these
        self._seconds, self._layers = 0.0, 0

    def known(self, cell: Cell, seconds: float | None, *, was_missing: bool) -> None:
        """Count a finished cell."""
        self._done[cell.size] += 1
        if was_missing:
            self.missing[cell.size] -= 1
        else:
            self._ask(cell)
        if seconds is not None:
            self._seconds += seconds
            self._layers += cell.size

    def ask(self, cells: Iterable[Cell]) -> None:
        """Count the cells of a new wave."""
        for cell in cells:
            self.missing[cell.size] += 1
            self._ask(cell)

    def _ask(self, cell: Cell) -> None:
        if (cell.size, cell.seed) != (self._sizes[0], self._search.seeds[0]):
            self._asked[cell.size] += 1
            self._seeds.setdefault(cell.size, set()).add(cell.seed)

    def estimate(self) -> Estimate:
        """What is still to come; a cell is taken to cost in proportion to its size."""
        now = next((size for size in self._sizes if self.missing[size]), None)
        if now is None:
            return Estimate(0, 0, 0, 0.0 if self._layers else None)
        search, each = self._search, len(self._search.seeds)
        left = {size: search.points * each - self._done[size] for size in self._sizes if size >= now}
        if search.kind == "grid":
            likely, least = left, sum(left.values())
        else:
            before = [size for size in self._seeds if size < now]
            finished = sum(self._asked[size] for size in before), sum(len(self._seeds[size]) for size in before)
            at_work = finished[0] + self._asked[now], finished[1] + len(self._seeds.get(now, ()))
            a_size = round(each * max(_mean_cells(*finished), _mean_cells(*at_work)))
            likely = {size: min(most, a_size) for size, most in left.items()}
            likely[now] = min(left[now], max(self.missing[now], a_size - self._done[now]))
            least = self.missing[now] + LEAST * each * (len(left) - 1)
        a_layer = self._seconds / self._layers if self._layers else None
        return Estimate(
            least=least,
            likely=sum(likely.values()),
            most=sum(left.values()),
            seconds=None if a_layer is None else a_layer * sum(size * count for size, count in likely.items()),
        )


def cells_per_pair(finished: Sequence[int], at_work: Sequence[int] = ()) -> float:
    """How many cells a size and seed will take, from finished pairs. An unfinished pair counts once it took more.

    Args:
        finished: The numbers of cells of finished pairs.
        at_work: The numbers of cells of unfinished pairs so far.
    """
    every = [*finished, *at_work]
    return max(_mean_cells(sum(finished), len(finished)), _mean_cells(sum(every), len(every)))


def _mean_cells(cells: int, pairs: int) -> float:
    return (TRUST * LIKELY + cells) / (TRUST + pairs)
