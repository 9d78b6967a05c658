"""Which cells to train next, as a function of the known losses, and an estimate of what is still to come.

A plan yields waves of cells. It gets only the losses it asked for, and only in whole waves. The cells therefore do not
depend on the order in which they finish, or on interruptions: a resumed sweep trains the same cells. `SearchState`
continues from wave to wave, at a cost per cell that does not grow with their number. `missing_cells` replays the plan
from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from depthlr.study.adaptive import Plan, adaptive
from depthlr.study.description import Search, Study
from depthlr.study.progress import CellCounts, Estimate
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
        known: The losses of trained cells. Cells that the search does not ask for change nothing.
        seconds: How long cells took, for the estimate.
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
        self._counts = CellCounts(search, self._sizes)
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

    def add(self, cell: Cell, loss: float, seconds: float | None = None) -> None:
        """Add a loss. After the last one of a wave, `missing` is the next wave.

        Args:
            cell: The trained cell.
            loss: Its loss, infinite if it diverged.
            seconds: How long it took, if that is known.
        """
        self._keep(cell, loss, seconds)
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

    def _keep(self, cell: Cell, loss: float, seconds: float | None) -> None:
        if cell not in self._losses:
            self._counts.finish(cell, seconds, asked=cell in self._missing)
        self._losses[cell] = loss

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
    return SearchState(search, sizes, known).missing


def search_state(study: Study, records: Iterable[Record]) -> SearchState:
    """The search of a study.

    Args:
        study: The study.
        records: Its finished cells.
    """
    known = {record.cell: record for record in records}
    losses = {cell: record.loss for cell, record in known.items()}
    seconds = {cell: record.seconds for cell, record in known.items()}
    return SearchState(study.search, study.model.sizes, losses, seconds)
