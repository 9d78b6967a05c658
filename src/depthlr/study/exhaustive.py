"""Every rate of the grid with every seed: the paper's search, and the reference for any other."""

from __future__ import annotations

from collections.abc import Sequence

from depthlr.study.description import Search
from depthlr.study.plan import Plan
from depthlr.training.cell import Cell


def exhaustive(search: Search, sizes: Sequence[int]) -> Plan:
    """One wave a size."""
    for size in sizes:
        yield [Cell(size, seed, rate) for seed in search.seeds for rate in search.rates]
