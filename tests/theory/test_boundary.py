"""Zero padding (Sec. 3.3, App. B): the boundary fraction, and the lemma that bounds the terms it loses."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.theory.boundary import boundary_fraction


def brute_fraction(shape, offsets) -> float:
    """Count the sites p with some p + offset outside the grid, one by one."""
    sites = list(itertools.product(*map(range, shape)))
    grid = set(sites)
    cut = [p for p in sites if any(tuple(map(sum, zip(p, d, strict=True))) not in grid for d in offsets)]
    return len(cut) / len(sites)


def lost(field: np.ndarray, offsets, *, circular: bool) -> float:
    """Left side of the lemma: |mean over p of sum_d f(p + d) - k mean f|, f = 0 outside or wrapped around."""
    total = 0.0
    for site in np.ndindex(field.shape):
        for offset in offsets:
            q = tuple(map(sum, zip(site, offset, strict=True)))
            if circular:
                total += field[tuple(np.mod(q, field.shape))]
            elif all(0 <= a < n for a, n in zip(q, field.shape, strict=True)):
                total += field[q]
    return abs(total - len(offsets) * field.sum()) / field.size


@st.composite
def grids(draw):
    """A grid of one or two axes, and a kernel: any set of offsets, symmetric or not."""
    axes = draw(st.integers(1, 2))
    shape = tuple(draw(st.integers(1, 7)) for _ in range(axes))
    offsets = draw(st.sets(st.tuples(*[st.integers(-4, 4)] * axes), min_size=1, max_size=6))
    return shape, sorted(offsets)


@given(grids())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_library_counts_what_the_loop_counts(grid):
    assert boundary_fraction(*grid) == pytest.approx(brute_fraction(*grid), abs=1e-15)


@given(grids(), st.integers(0, 10**6))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_lost_terms_are_bounded_by_the_boundary(grid, seed):
    shape, offsets = grid
    field = np.random.default_rng(seed).uniform(-1, 1, shape)
    bound = len(offsets) * boundary_fraction(shape, offsets) * np.abs(field).max()
    assert lost(field, offsets, circular=False) <= bound + 1e-12
    assert lost(field, offsets, circular=True) <= 1e-12


@pytest.mark.parametrize(("length", "shift"), [(5, 1), (9, 3), (12, -4)])
def test_a_kernel_of_one_offset_attains_the_bound(length, shift):
    field = np.ones(length)
    bound = 1 * boundary_fraction((length,), [(shift,)]) * 1.0
    assert lost(field, [(shift,)], circular=False) == pytest.approx(bound, abs=1e-12)
    assert bound == pytest.approx(abs(shift) / length)


def test_for_a_centred_kernel_the_bound_is_three_times_too_wide():
    # 3 x 1: each border site loses one term of three; the lemma allows for all three
    offsets = [(-1,), (0,), (1,)]
    bound = 3 * boundary_fraction((10,), offsets)
    assert lost(np.ones(10), offsets, circular=False) == pytest.approx(bound / 3)


@given(st.integers(1, 4), st.integers(9, 60))
@settings(derandomize=True, deadline=None)
def test_on_a_line_the_fraction_is_twice_the_half_span_over_the_length(span, length):
    offsets = [(d,) for d in range(-span, span + 1)]
    assert boundary_fraction((length,), offsets) == pytest.approx(2 * span / length)


@given(st.integers(0, 3), st.integers(0, 3), st.integers(8, 30), st.integers(8, 30))
@settings(derandomize=True, deadline=None)
def test_on_a_rectangle_the_fraction_is_at_most_the_sum_of_both_axes(tall, broad, height, width):
    offsets = list(itertools.product(range(-tall, tall + 1), range(-broad, broad + 1)))
    sides = 2 * tall / height, 2 * broad / width
    fraction = boundary_fraction((height, width), offsets)
    assert fraction == pytest.approx(sides[0] + sides[1] - sides[0] * sides[1])
    assert fraction <= sum(sides) + 1e-15
