"""What to run next, as a function of what is known: a search replays itself from the start, wave by wave.

A plan is told only the losses it asked for, and only in whole waves. So the cells it asks for depend on neither the
order in which they finish nor on when a sweep was interrupted, and a resumed sweep ends with the very same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from depthlr.study.adaptive import adaptive
from depthlr.study.description import Search
from depthlr.study.exhaustive import exhaustive
from depthlr.study.plan import Plan
from depthlr.training.cell import Cell

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
