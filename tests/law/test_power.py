import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthlr.errors import DepthlrError
from depthlr.law.rules import LAW_EXPONENT, transfer_by_power

rates = st.floats(1e-6, 10)
depths = st.floats(1, 1000)


@pytest.mark.parametrize(("depth", "rate"), [(14, 6.231e-3), (18, 4.274e-3), (22, 3.163e-3), (42, 1.199e-3)])
def test_the_papers_zero_shot_table_is_reproduced_to_its_digits(depth, rate):
    assert transfer_by_power(2.462e-3, 26, depth) == pytest.approx(rate, abs=0.5001e-6)


def test_the_exponent_is_minus_three_halves():
    assert LAW_EXPONENT == -1.5
    assert transfer_by_power(1.0, 1, 4) == 0.125


@given(rates, depths, depths, depths, st.floats(-3, 3))
def test_carrying_in_two_hops_is_carrying_in_one(rate, a, b, c, exponent):
    one = transfer_by_power(rate, a, c, exponent)
    assert transfer_by_power(transfer_by_power(rate, a, b, exponent), b, c, exponent) == pytest.approx(one, rel=1e-12)


@given(rates, depths)
def test_the_same_depth_keeps_the_rate_exactly(rate, depth):
    assert transfer_by_power(rate, depth, depth) == rate


@given(rates, depths, depths, st.floats(0.1, 10))
def test_the_carried_rate_is_linear_in_the_rate(rate, a, b, factor):
    assert transfer_by_power(factor * rate, a, b) == pytest.approx(factor * transfer_by_power(rate, a, b), rel=1e-12)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, "3", None, 10**400])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_not_a_positive_number_is_named(bad, place):
    arguments = [1e-3, 4, 8]
    arguments[place] = bad
    with pytest.raises(DepthlrError, match=["rate", "source depth", "target depth"][place]):
        transfer_by_power(*arguments)


def test_a_rate_beyond_floats_is_an_error_and_not_a_zero_or_infinity():
    with pytest.raises(DepthlrError, match="float"):
        transfer_by_power(1e-3, 1, 1e300)
    with pytest.raises(DepthlrError, match="float"):
        transfer_by_power(1e-3, 1e300, 1)
    with pytest.raises(DepthlrError, match="exponent"):
        transfer_by_power(1e-3, 1, 2, math.nan)


def test_numpy_scalars_are_numbers():
    assert transfer_by_power(np.float32(1.0), np.int64(1), np.int64(4)) == 0.125
