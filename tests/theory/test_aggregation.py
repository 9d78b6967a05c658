"""Means of unit energies (App. A). (A5) sends dH/dS_i of the harmonic mean to infinity as S_i -> 0; it tends to L."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depthlr.law.curve import arithmetic, geometric, harmonic

energies = st.lists(st.floats(0.01, 100), min_size=2, max_size=12)


def slope(energies: list[float]) -> float:
    """d harmonic / d S_1, by a central difference of relative size 1e-4."""
    first, rest = energies[0], energies[1:]
    step = 1e-4 * first
    return (harmonic([first + step, *rest]) - harmonic([first - step, *rest])) / (2 * step)


@given(energies)
@settings(derandomize=True, deadline=None)
def test_the_slope_is_the_papers_formula(values):
    formula = harmonic(values) ** 2 / (len(values) * values[0] ** 2)
    assert slope(values) == pytest.approx(formula, rel=1e-5)


@pytest.mark.parametrize("units", [2, 5, 30])
def test_the_slope_tends_to_the_number_of_units_not_to_infinity(units):
    slopes = [slope([10.0**-k] + [1.0] * (units - 1)) for k in range(9)]
    print(f"dH/dS_1 at S_1 = 1, 1e-4, 1e-8, {units} units: {slopes[0]:.4g}, {slopes[4]:.6g}, {slopes[8]:.9g}")
    assert slopes == sorted(slopes)
    assert all(value < units for value in slopes[:-2])
    assert slopes[-1] == pytest.approx(units, rel=1e-6)


@given(energies)
@settings(derandomize=True, deadline=None)
def test_the_harmonic_mean_is_ruled_by_its_smallest_entry(values):
    # the point of (A5) stands: however large the others, H <= L min S
    assert min(values) <= harmonic(values) * (1 + 1e-12)
    assert harmonic(values) <= len(values) * min(values) * (1 + 1e-12)


@pytest.mark.parametrize("units", [3, 10])
def test_the_geometric_mean_hides_a_large_unit(units):  # (A4)
    values = [1e-6, 1e6] + [1.0] * (units - 2)
    assert geometric(values) == pytest.approx(1)
    assert arithmetic(values) == pytest.approx((1e6 + 1e-6 + units - 2) / units)


@given(st.lists(st.lists(st.floats(0.01, 100), min_size=1, max_size=4), min_size=1, max_size=4))
@settings(derandomize=True, deadline=None)
def test_only_the_arithmetic_mean_survives_regrouping(groups):  # (A1), (A6)
    flat = [value for group in groups for value in group]
    merged = [arithmetic(group) for group in groups for _ in group]
    assert arithmetic(merged) == pytest.approx(arithmetic(flat))
    assert geometric(merged) >= geometric(flat) * (1 - 1e-12)
    assert harmonic(merged) >= harmonic(flat) * (1 - 1e-12)
