"""What is still to come of a sweep: learnt from its own pairs of size and seed, once it has some."""

from __future__ import annotations

import pytest

from depthlr.study.search import PRIOR_CELLS, PRIOR_PAIRS, CellCounts, SearchState, mean_cells
from depthlr.training.cell import Cell
from experiments.landscape import study

STUDY = study(sizes=(2, 4, 8), points=80, seeds=3)
SEARCH, SIZES = STUDY.search, STUDY.model.sizes


def cells(size: int, seed: int, count: int, first: int = 0) -> list[Cell]:
    return [Cell(size, seed, rate) for rate in SEARCH.rates[first : first + count]]


def left(known: list[Cell], missing: list[Cell], seconds: dict[Cell, float] | None = None):
    counts = CellCounts(SEARCH, SIZES)
    for cell in known:
        counts.finish(cell, (seconds or {}).get(cell))
    counts.add_missing(missing)
    return counts.estimate()


def cells_per_pair(finished: list[int], at_work: list[int] = ()) -> float:
    """How many cells a size and seed take, by the obvious way. An unfinished pair counts once it took more."""
    every = [*finished, *at_work]
    return max(mean_cells(sum(finished), len(finished)), mean_cells(sum(every), len(every)))


def test_with_nothing_finished_a_pair_takes_what_smooth_curves_take():
    assert cells_per_pair([]) == PRIOR_CELLS
    assert left([], cells(2, 0, 5)).likely == 3 * round(3 * PRIOR_CELLS)


def test_finished_pairs_are_blended_with_what_was_expected():
    assert cells_per_pair([30] * PRIOR_PAIRS) == pytest.approx((30 + PRIOR_CELLS) / 2)
    assert cells_per_pair([30] * 1000) == pytest.approx(30, rel=0.01)
    assert cells_per_pair([5] * 1000) == pytest.approx(5, rel=0.01)


def test_pairs_at_work_count_only_once_they_took_more():
    assert cells_per_pair([10, 10], [3, 3]) == cells_per_pair([10, 10])
    assert cells_per_pair([10, 10], [40, 40]) == cells_per_pair([10, 10, 40, 40])


def test_rough_curves_raise_the_estimate_and_smooth_ones_lower_it():
    missing = cells(4, 0, 3)
    by_count = [
        left([cell for seed in SEARCH.seeds for cell in cells(2, seed, count)], missing).likely for count in (5, 8, 40)
    ]
    assert by_count == sorted(by_count)
    assert by_count[2] > 2 * by_count[1]
    a_size = round(
        3 * (PRIOR_PAIRS * PRIOR_CELLS + 2 * 40) / (PRIOR_PAIRS + 2)
    )  # of two seeds: the first scanned the grid
    assert by_count[2] == 2 * a_size


def test_the_pair_that_scans_the_grid_for_the_others_is_no_measure_of_them():
    others = [cell for seed in (1, 2) for cell in cells(2, seed, 8)]
    missing = cells(4, 0, 3)
    assert left([*others, *cells(2, 0, 8)], missing) == left([*others, *cells(2, 0, 30)], missing)


def test_a_size_that_has_taken_more_than_expected_still_wants_what_it_asks_for():
    known = [cell for seed in SEARCH.seeds for cell in cells(8, seed, 60)]
    known += [cell for size in (2, 4) for seed in SEARCH.seeds for cell in cells(size, seed, 8)]
    assert left(known, cells(8, 1, 4, first=60)).likely == 4


def test_no_more_than_the_grid_is_expected():
    known = [cell for size in (2, 4) for seed in SEARCH.seeds for cell in cells(size, seed, 80)]
    found = left(known, cells(8, 0, 3))
    assert found.likely <= found.most == 3 * 80


def test_seconds_go_by_the_size():
    known = [cell for seed in SEARCH.seeds for cell in cells(2, seed, 8)]
    found = left(known, cells(4, 0, 3), dict.fromkeys(known, 0.5))  # 0.25 s a layer
    assert found.seconds == pytest.approx(found.likely / 2 * 0.25 * (4 + 8))


def test_what_the_search_wants_is_worked_out_where_it_is_not_given():
    assert SearchState(SEARCH, SIZES).estimate() == left([], cells(2, 0, 80)[8::16])
