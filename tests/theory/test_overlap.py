import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.theory.overlap import cross_entropy_gradient_norm2, overlap_sum, residual_growth, residual_growth_bound

from depthlr.errors import DepthlrError


@given(st.integers(0, 60))
def test_the_overlap_sum_equals_the_double_loop(depth):
    assert overlap_sum(depth) == sum(min(a, b) for a in range(1, depth + 1) for b in range(1, depth + 1))


def test_the_mean_overlap_sum_gives_the_exponent_minus_three_halves():
    depths = [1000, 2000]
    rate = [np.mean([overlap_sum(level) for level in range(1, depth + 1)]) ** -0.5 for depth in depths]
    assert math.log(rate[1] / rate[0]) / math.log(2) == pytest.approx(-1.5, abs=2e-3)


@given(st.floats(0, 4), st.floats(0, 1), st.integers(1, 300), st.data())
def test_residual_growth_is_the_product_of_its_blocks_and_stays_below_its_bound(c, q, blocks, data):
    level = data.draw(st.integers(0, blocks))
    growth = residual_growth(c, q, blocks, level)
    assert growth == pytest.approx(math.prod([1 + c * q / blocks] * level), rel=1e-12)
    assert 1 <= growth <= residual_growth(c, q, blocks, blocks) <= residual_growth_bound(c, q) * (1 + 1e-12)


def test_the_bound_is_reached_by_infinitely_many_blocks():
    assert residual_growth(2, 0.5, 10**9, 10**9) == pytest.approx(residual_growth_bound(2, 0.5), rel=1e-8)
    assert residual_growth_bound(2, 0.5) == pytest.approx(math.e)


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_the_cross_entropy_gradient_at_uniform_softmax(classes):
    gradient = np.full(classes, 1 / classes) - np.eye(classes)[0]  # p - y
    assert cross_entropy_gradient_norm2(classes) == pytest.approx(gradient @ gradient)


def test_values_outside_the_theory_are_errors():
    for bad in (
        lambda: overlap_sum(-1),
        lambda: overlap_sum(1.5),
        lambda: residual_growth(1, 0.5, 0, 0),
        lambda: residual_growth(1, 0.5, 4, 5),
        lambda: residual_growth(-1, 0.5, 4, 2),
        lambda: residual_growth_bound(1, math.nan),
        lambda: cross_entropy_gradient_norm2(1),
    ):
        with pytest.raises(DepthlrError):
            bad()
