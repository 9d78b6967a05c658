"""The appendix "Rationale for the Arithmetic Mean", property by property."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthlr.errors import DepthlrError
from depthlr.law.curve import AGGREGATORS, arithmetic, geometric, harmonic

energies = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12)
every_mean = pytest.mark.parametrize("mean", AGGREGATORS.values(), ids=AGGREGATORS.keys())


def merged(values, groups):
    """Each value replaced by its group's average; groups are labels, one a value."""
    averages = {g: np.mean([v for v, label in zip(values, groups, strict=True) if label == g]) for g in set(groups)}
    return [averages[g] for g in groups]


@given(energies)
def test_means_are_what_their_names_say(values):
    array = np.array(values)
    assert arithmetic(values) == pytest.approx(array.mean(), rel=1e-12)
    assert geometric(values) == pytest.approx(math.prod(v ** (1 / len(values)) for v in values), rel=1e-12)
    assert harmonic(values) == pytest.approx(1 / (1 / array).mean(), rel=1e-12)


@every_mean
@given(data=st.data(), values=energies, factor=st.floats(1e-6, 1e6))
def test_a1_permutation_invariance_and_scale_equivariance(mean, data, values, factor):
    assert mean(data.draw(st.permutations(values))) == pytest.approx(mean(values), rel=1e-12)
    assert mean([factor * value for value in values]) == pytest.approx(factor * mean(values), rel=1e-12)


@given(st.data(), energies)
def test_a1_a6_the_arithmetic_mean_survives_any_regrouping(data, values):
    groups = data.draw(st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values)))
    assert arithmetic(merged(values, groups)) == pytest.approx(arithmetic(values), rel=1e-12)


@pytest.mark.parametrize("mean", [geometric, harmonic])
@given(st.floats(1e-3, 1e3), st.floats(2, 1e3), st.floats(1e-3, 1e3))
def test_a1_a6_the_other_means_grow_when_unequal_units_are_merged(mean, small, ratio, other):
    values = [small, ratio * small, other]
    assert mean(merged(values, [0, 0, 1])) > mean(values) * (1 + 1e-9)


def test_a2_the_mean_energy_is_what_a_unit_drawn_at_random_moves():
    rng = np.random.default_rng(0)
    values = [0.5, 1.0, 4.0, 8.0]
    moves = rng.normal(size=400_000) * np.sqrt(values)[rng.integers(0, 4, size=400_000)]
    stderr = (moves**2).std() / math.sqrt(moves.size)
    assert abs((moves**2).mean() - arithmetic(values)) < 4 * stderr


@every_mean
@given(values=energies)
def test_a3_means_lie_between_the_smallest_and_the_largest(mean, values):
    assert min(values) * (1 - 1e-12) <= mean(values) <= max(values) * (1 + 1e-12)


@given(energies)
def test_a3_harmonic_is_below_geometric_is_below_arithmetic(values):
    assert harmonic(values) <= geometric(values) * (1 + 1e-12)
    assert geometric(values) <= arithmetic(values) * (1 + 1e-12)


@every_mean
@given(data=st.data(), values=energies, factor=st.floats(1.01, 100))
def test_a3_means_grow_with_every_entry(mean, data, values, factor):
    place = data.draw(st.integers(0, len(values) - 1))
    larger = [*values[:place], factor * values[place], *values[place + 1 :]]
    assert mean(larger) >= mean(values) * (1 - 1e-12)


def test_a4_large_and_small_units_cancel_in_the_geometric_mean_only():
    means = []
    for tiny in (1e-2, 1e-4, 1e-8):
        values = [tiny, 1 / tiny, 1.0, 1.0, 1.0]
        assert geometric(values) == pytest.approx(1.0)
        assert arithmetic(values) == pytest.approx((tiny + 1 / tiny + 3) / 5)
        means.append(arithmetic(values))
    assert means[-1] > 1e7


@given(energies)
def test_a5_the_slope_of_the_harmonic_mean(values):
    n, h = len(values), harmonic(values)
    step = values[0] * 1e-5
    rise = harmonic([values[0] + step, *values[1:]]) - harmonic([values[0] - step, *values[1:]])
    expected = h**2 / (n * values[0] ** 2)
    # the difference of two nearby means keeps about h * 1e-16 / step of noise
    assert rise / (2 * step) == pytest.approx(expected, rel=1e-5, abs=1e-15 * h / step)


def test_a5_that_slope_tends_to_the_number_of_units_and_not_to_infinity():
    others = [0.3, 1.0, 2.0, 7.0]
    slopes = []
    for tiny in (1e-3, 1e-6, 1e-12):
        h = harmonic([tiny, *others])
        slopes.append(h**2 / (5 * tiny**2))
    assert slopes == sorted(slopes)
    assert slopes[-1] == pytest.approx(5, rel=1e-9)


@given(energies)
def test_a5_the_harmonic_mean_is_ruled_by_its_smallest_entry(values):
    assert harmonic(values) <= len(values) * min(values) * (1 + 1e-12)


@every_mean
@given(st.floats(1e-6, 1e6), st.integers(1, 20))
def test_a7_equal_units_have_that_energy_as_their_mean(mean, value, units):
    assert mean([value] * units) == pytest.approx(value, rel=1e-12)


def test_a_unit_at_zero_makes_the_geometric_and_harmonic_mean_zero():
    assert (arithmetic([0, 4]), geometric([0, 4]), harmonic([0, 4])) == (2, 0, 0)


@every_mean
def test_extreme_energies_neither_overflow_nor_vanish(mean):
    assert mean([1e308] * 8) == pytest.approx(1e308, rel=1e-12)
    assert mean([1e-308] * 8) == pytest.approx(1e-308, rel=1e-12)


@every_mean
@pytest.mark.parametrize("bad", [[], [1.0, -1e-9], [1.0, math.nan], [1.0, math.inf]])
def test_what_is_no_energy_is_an_error(mean, bad):
    with pytest.raises(DepthlrError):
        mean(bad)
