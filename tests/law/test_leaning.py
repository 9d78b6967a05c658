"""How much the law counts beside a measurement."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthlr.law.carried_rate import EXPONENT_SPREAD, LEAST_SPREAD, law_share

DEPTHS = st.floats(1, 1e4)


@given(st.floats(0, 10), DEPTHS, DEPTHS)
def test_it_is_a_share_and_the_same_both_ways(error, source, target):
    share = law_share(error, source, target)
    assert 0 <= share <= 1
    assert law_share(error, target, source) == pytest.approx(share)


@given(st.floats(1e-3, 1), st.floats(1.1, 100), st.floats(1.1, 10))
def test_it_grows_with_the_error_and_falls_with_the_distance(error, ratio, factor):
    assert law_share(factor * error, 1, ratio) > law_share(error, 1, ratio)
    assert law_share(error, 1, factor * ratio) < law_share(error, 1, ratio)


def test_both_count_alike_where_both_are_as_uncertain():
    assert law_share((EXPONENT_SPREAD**2 + LEAST_SPREAD**2) ** 0.5, 5, 50) == pytest.approx(0.5)
    assert law_share(LEAST_SPREAD, 7, 7) == pytest.approx(0.5)


def test_a_certain_measurement_leaves_the_law_out_and_close_depths_change_nothing_abruptly():
    assert law_share(0.0, 5, 50) == law_share(0.0, 7, 7) == 0
    assert law_share(0.05, 100, 101) == pytest.approx(law_share(0.05, 100, 100), abs=1e-3)
