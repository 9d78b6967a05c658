"""The measured change of a rate and the law's, weighed by how well each is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthlr.energy.persistent import DrawnRate
from depthlr.law.carried_rate import EXPONENT_SPREAD, LEAST_SPREAD
from depthlr.law.rules import LAW_EXPONENT
from depthlr.transfer.measured import Measured

DECADES = st.floats(-6, 2)
ERRORS = st.floats(0.01, 1)


def drawn(decades: float, error: float | None) -> DrawnRate:
    return DrawnRate(decades, error, noisy=False)


@given(DECADES, DECADES, ERRORS, ERRORS, st.floats(2, 100), st.floats(2, 100))
def test_it_lies_between_the_measurement_and_the_law_and_inverts(here, there, error, other, source, target):
    found = Measured.change(drawn(here, error), drawn(there, other), source, target, one_width=True)
    ends = sorted((there - here, LAW_EXPONENT * math.log10(target / source)))
    assert ends[0] - 1e-9 <= found.decades <= ends[1] + 1e-9
    back = Measured.change(drawn(there, other), drawn(here, error), target, source, one_width=True)
    assert back.decades == pytest.approx(-found.decades, abs=1e-9)
    assert found.factor * back.factor == pytest.approx(1)


def test_it_is_the_best_guess_where_exponents_and_draws_scatter_as_assumed():
    """Against the truth, over made-up models: better than either alone, and no other weight does better."""
    draw, error = np.random.default_rng(0), 0.3
    distance = math.log10(4)
    exponents = LAW_EXPONENT + EXPONENT_SPREAD * draw.normal(size=4000)
    true = exponents * distance + LEAST_SPREAD * draw.normal(size=4000)
    seen = true + draw.normal(size=4000) * math.hypot(error, error)
    changes = [Measured.change(drawn(0, error), drawn(value, error), 5, 20, one_width=True) for value in seen]

    def miss(share):
        return float(np.sqrt(np.mean(((1 - share) * seen + share * LAW_EXPONENT * distance - true) ** 2)))

    share = changes[0].law_share
    found = float(np.sqrt(np.mean((np.array([one.decades for one in changes]) - true) ** 2)))
    assert found == pytest.approx(miss(share))
    assert found < min(miss(other) for other in (0.0, share - 0.1, share + 0.1, 1.0))


def test_between_widths_and_from_one_draw_the_measurement_stands_alone():
    for one, other, one_width in ((0.5, 0.5, False), (None, 0.5, True), (0.5, None, True), (None, None, True)):
        found = Measured.change(drawn(-1, one), drawn(-1.2, other), 5, 20, one_width=one_width)
        assert (found.decades, found.law_share) == (pytest.approx(-0.2), 0)
        assert (found.standard_error is None) is one_width
