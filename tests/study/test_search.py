"""Searches: pure functions of what is known, whatever the order, the timing and the interruptions."""

import dataclasses
import math
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.study.test_estimate import cells_per_pair

from depthlr.study import Estimate, SearchState, missing_cells
from depthlr.study.adaptive import APART, best_index, predict_optimum
from depthlr.study.search import LEAST_CELLS, PLANS
from depthlr.training.cell import Cell
from experiments.landscape import Landscape, landscape, study
from experiments.speed.search import score

KINDS = sorted(PLANS)


def made_up(kind: str, seed: int, points: int, sizes=(2, 5, 9), seeds=2) -> Landscape:
    return landscape(seed, study(kind, sizes, points, seeds))


def chaotic(kind: str, seed: int, points: int, sizes=(2, 5, 9), seeds=2) -> Landscape:
    """No bowl at all: random losses, a random share of them diverged."""
    rng = np.random.default_rng(seed)
    losses = rng.exponential(size=(len(sizes), seeds, points))
    losses[rng.random(losses.shape) < rng.choice([0, 0.3, 0.9, 1])] = np.inf
    return Landscape(study(kind, sizes, points, seeds), losses)


def explore(given: Landscape) -> dict[Cell, float]:
    """Left alone from start to end."""
    known: dict[Cell, float] = {}
    while wave := missing_cells(given.study.search, given.study.model.sizes, known):
        known |= {cell: given.loss(cell) for cell in wave}
    return known


def curve(given: Landscape, known: dict[Cell, float], size: int, seed: int) -> dict[int, float]:
    rates = given.study.search.rates
    return {rates.index(c.rate): loss for c, loss in known.items() if (c.size, c.seed) == (size, seed)}


landscapes = st.builds(
    lambda make, kind, seed, points: make(kind, seed, points),
    st.sampled_from([made_up, chaotic]),
    st.sampled_from(KINDS),
    st.integers(0, 10**6),
    st.integers(3, 40),
)


def replayed(given: Landscape, known: dict[Cell, float]) -> list[Cell]:
    """What is wanted, by the obvious way: the whole search again, from its start."""
    plan = PLANS[given.study.search.kind](given.study.search, sorted(given.study.model.sizes))
    try:
        wave = next(plan)
        while not (missing := [cell for cell in wave if cell not in known]):
            wave = plan.send({cell: known[cell] for cell in wave})
    except StopIteration:
        return []
    return missing


def told(search, sizes, known: dict[Cell, float]) -> SearchState:
    """A state that was told all that is known; a cell of a layer takes a second."""
    state = SearchState(search, sizes)
    for cell, loss in known.items():
        state.add(cell, loss, float(cell.size))
    return state


def estimated(given: Landscape, known: dict[Cell, float], missing: list[Cell]) -> Estimate:
    """What is still to come, counted anew over all cells; a cell of a layer takes a second."""
    search, sizes = given.study.search, given.study.model.sizes
    if not missing:
        return Estimate(0, 0, 0, 0.0 if known else None)
    now, each = missing[0].size, len(search.seeds)
    left = {size: search.points * each - sum(c.size == size for c in known) for size in sizes if size >= now}
    likely, least = dict(left), sum(left.values())
    if search.kind == "adaptive":
        pairs = Counter((cell.size, cell.seed) for cell in [*known, *missing])
        pairs.pop((min(sizes), search.seeds[0]), None)
        finished = [count for (size, _), count in pairs.items() if size < now]
        at_work = [count for (size, _), count in pairs.items() if size == now]
        a_size = round(each * cells_per_pair(finished, at_work))
        likely = {size: min(most, a_size) for size, most in left.items()}
        likely[now] = min(left[now], max(len(missing), a_size - (search.points * each - left[now])))
        least = len(missing) + sum(min(LEAST_CELLS * each, most) for size, most in left.items() if size != now)
    seconds = float(sum(size * count for size, count in likely.items())) if known else None
    return Estimate(least, sum(likely.values()), sum(left.values()), seconds)


@settings(max_examples=60, deadline=None)
@given(landscapes, st.integers(0, 10**6))
def test_a_state_that_is_told_cell_by_cell_wants_what_the_replay_wants(given, seed):
    """Whatever the order in which cells finish, and wherever the state is made anew from what is known."""
    random = Random(seed)
    search, sizes = given.study.search, given.study.model.sizes
    known: dict[Cell, float] = {}
    state = SearchState(search, sizes)
    while missing := state.missing:
        assert missing == replayed(given, known)
        assert state.estimate() == estimated(given, known, missing)
        cell = random.choice(missing)
        known[cell] = given.loss(cell)
        state.add(cell, known[cell], float(cell.size))
        if random.random() < 0.1:
            state = told(search, sizes, known)
        assert len(state) == len(known)
    assert replayed(given, known) == []
    assert state.estimate() == Estimate(0, 0, 0, 0.0)


def test_a_loss_told_twice_or_unasked_for_changes_nothing():
    given = made_up("adaptive", 3, 30)
    state = SearchState(given.study.search, given.study.model.sizes)
    first, second, *_ = state.missing
    assert not state.add(first, 1.0, 2.0)
    before = state.missing, state.estimate(), len(state)
    assert not state.add(first, 1.0, 2.0)
    assert (state.missing, state.estimate(), len(state)) == before
    state.add(Cell(2, 99, 0.1), 0.0)
    assert state.missing == before[0]
    assert state.missing[0] == second


@settings(max_examples=60, deadline=None)
@given(landscapes, st.integers(0, 10**6))
def test_interruption_and_the_order_of_finishing_do_not_change_which_cells_are_run(given, seed):
    random = Random(seed)
    search, sizes = given.study.search, given.study.model.sizes
    known: dict[Cell, float] = {}
    while wave := missing_cells(search, sizes, known):
        done = random.sample(wave, random.randint(0, len(wave)))  # any of them, in any order, before the lights go out
        known |= {cell: given.loss(cell) for cell in done}
        if not done:
            assert missing_cells(search, sizes, known) == wave
    assert known == explore(given)


@settings(max_examples=60, deadline=None)
@given(landscapes)
def test_a_wave_is_new_cells_on_the_grid_and_sizes_ascend(given):
    """A wave of the adaptive search has one size, because a size starts from the optima of the smaller ones."""
    search, sizes = given.study.search, given.study.model.sizes
    known: dict[Cell, float] = {}
    reached = 0
    while wave := missing_cells(search, sizes, known):
        assert len(set(wave)) == len(wave)
        assert not set(wave) & set(known)
        assert len({cell.size for cell in wave}) == 1 or search.kind == "grid"
        assert [cell.size for cell in wave] == sorted(cell.size for cell in wave)
        assert wave[0].size >= reached
        assert all(cell.rate in search.rates and cell.seed in search.seeds for cell in wave)
        reached = wave[0].size
        known |= {cell: given.loss(cell) for cell in wave}
    assert {(c.size, c.seed) for c in known} == {(size, seed) for size in sizes for seed in search.seeds}


@settings(max_examples=30, deadline=None)
@given(landscapes, st.data())
def test_the_bounds_of_what_is_still_to_come_are_in_order_when_single_cells_are_lost(given, data):
    known = explore(given)
    lost = data.draw(st.sets(st.sampled_from(sorted(known, key=str)), max_size=3))
    kept = {cell: loss for cell, loss in known.items() if cell not in lost}
    left = told(given.study.search, given.study.model.sizes, kept).estimate()
    assert left.least <= left.likely <= left.most


@settings(max_examples=30, deadline=None)
@given(landscapes)
def test_what_is_still_to_come_lies_within_its_bounds(given):
    search, sizes = given.study.search, given.study.model.sizes
    total = len(explore(given))
    known: dict[Cell, float] = {}
    while wave := missing_cells(search, sizes, known):
        left = told(search, sizes, known).estimate()
        assert left.least <= total - len(known) <= left.most
        assert left.least <= left.likely <= left.most
        assert (left.seconds is None) == (not known)
        known |= {cell: given.loss(cell) for cell in wave}
    assert told(search, sizes, known).estimate().most == 0


@settings(max_examples=30, deadline=None)
@given(landscapes, st.integers(0, 10**6))
def test_cells_nobody_asked_for_change_nothing(given, seed):
    rates = np.random.default_rng(seed).choice(given.study.search.rates, 2)
    extra = {Cell(size, 99, float(rate)): 0.0 for size in given.study.model.sizes for rate in rates}
    assert missing_cells(given.study.search, given.study.model.sizes, explore(given) | extra) == []
    assert missing_cells(given.study.search, given.study.model.sizes, extra) == missing_cells(
        given.study.search, given.study.model.sizes, {}
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_the_sizes_does_not_matter(kind):
    given = made_up(kind, 1, 20)
    search, sizes = given.study.search, given.study.model.sizes
    assert missing_cells(search, sizes[::-1], {}) == missing_cells(search, sizes, {})


def test_the_grid_search_runs_every_cell():
    given = made_up("grid", 0, 7)
    assert len(explore(given)) == 3 * 2 * 7


def test_adaptive_search_finds_the_grids_optimum_with_an_eighth_of_its_cells():
    found = score(landscape(seed) for seed in range(1000, 1012))
    assert found.near >= 0.95
    assert found.cells <= 10


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([made_up, chaotic]), st.integers(0, 10**6))
def test_seeds_that_end_far_apart_have_tried_each_others_best(make, seed):
    given = make("adaptive", seed, 40, seeds=3)
    search, known = given.study.search, explore(given)
    for size in given.study.model.sizes:
        curves = [curve(given, known, size, one) for one in search.seeds]
        alive = [one for one in curves if math.isfinite(min(one.values()))]
        for one in curves:
            far = [
                best_index(other)
                for other in alive
                if abs(best_index(other) - best_index(one)) * search.spacing > APART
            ]
            assert set(far) <= set(one)


def test_a_dip_is_left_for_the_valley_that_another_seed_found():
    """At the second size the first seed starts in a dip between walls, away from the valley of both."""
    given = made_up("adaptive", 0, 80, sizes=(2, 4), seeds=2)
    index = np.arange(80)
    losses = np.stack([np.stack(2 * [1 + 0.002 * (index - at) ** 2]) for at in (40, 20)])
    start = predict_optimum({2: 40.0}, 4, given.study.search)
    losses[1, 0, start - 8 : start], losses[1, 0, start], losses[1, 0, start + 1 :] = 3.0, 1.3, 3.0
    given = dataclasses.replace(given, losses=losses)
    known = explore(given)
    assert [best_index(curve(given, known, 4, seed)) for seed in given.study.search.seeds] == [20, 20]


def test_adaptive_search_follows_an_optimum_that_jumps():
    given = landscape(5, study(sizes=(2, 3, 4, 5)))
    losses = np.stack([np.roll(given.losses[0], shift, axis=-1) for shift in (0, -25, 8, -9)])
    losses[..., -30:] = np.inf  # what rolled over the end
    jumpy = dataclasses.replace(given, losses=losses)
    known = explore(jumpy)
    for row, size in enumerate(jumpy.study.model.sizes):
        for seed in jumpy.study.search.seeds:
            true = losses[row, seed].argmin()
            assert abs(best_index(curve(jumpy, known, size, seed)) - true) <= 1, (size, seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("slope", "end"), [(0.01, 0), (-0.01, 29)])
def test_an_optimum_at_the_end_of_the_range_is_followed_to_that_end(kind, slope, end):
    given = made_up(kind, 0, 30)
    steady = dataclasses.replace(given, losses=np.broadcast_to(2 + slope * np.arange(30), given.losses.shape))
    known = explore(steady)
    assert {best_index(curve(steady, known, size, seed)) for size in (2, 5, 9) for seed in (0, 1)} == {end}


@pytest.mark.parametrize("kind", KINDS)
def test_where_every_rate_diverges_the_search_ends_at_the_lowest(kind):
    given = made_up(kind, 0, 80)
    hopeless = dataclasses.replace(given, losses=np.full(given.losses.shape, math.inf))
    known = explore(hopeless)
    for size in (2, 5, 9):
        for seed in (0, 1):
            assert 0 in curve(hopeless, known, size, seed)
    if kind == "adaptive":
        assert len(known) < 0.2 * given.losses.size


@pytest.mark.parametrize("kind", KINDS)
def test_equal_and_zero_losses_are_no_trouble(kind):
    given = made_up(kind, 0, 12)
    flat = dataclasses.replace(given, losses=np.zeros(given.losses.shape))
    assert best_index(curve(flat, explore(flat), 2, 0)) == 0


def test_a_deeper_size_starts_where_a_power_law_says():
    search = study().search
    assert predict_optimum({}, 8, search) is None
    line = {size: 60 - 1.5 * math.log10(size / 4) / search.spacing for size in (4, 8, 16)}
    assert abs(predict_optimum(line, 32, search) - (60 - 1.5 * math.log10(8) / search.spacing)) < 2
    assert predict_optimum({4: 2.0}, 400, search) == 0
