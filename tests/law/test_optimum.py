import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthlr.errors import DepthlrError
from depthlr.law.curve import optimum

curves = st.lists(st.floats(0, 10) | st.just(math.inf), min_size=1, max_size=30)


@given(curves)
def test_the_optimum_is_the_least_loss_and_of_equals_the_smallest_rate(losses):
    rates = [10.0 ** (i / 7 - 3) for i in range(len(losses))]
    found = optimum(rates, losses)
    if all(math.isinf(loss) for loss in losses):
        assert found is None
    else:
        assert found.index == int(np.argmin(losses))
        assert (found.rate, found.loss) == (rates[found.index], losses[found.index])
        assert found.at_edge == (found.index in (0, len(losses) - 1))


@given(curves, st.randoms())
def test_the_order_of_the_rates_does_not_matter(losses, random):
    rates = [10.0 ** (i / 7 - 3) for i in range(len(losses))]
    pairs = list(zip(rates, losses, strict=True))
    random.shuffle(pairs)
    found, shuffled = optimum(rates, losses), optimum([r for r, _ in pairs], [v for _, v in pairs])
    assert (found and (found.rate, found.edge)) == (shuffled and (shuffled.rate, shuffled.edge))


def test_an_edge_is_an_edge_of_what_was_allowed_not_of_what_was_run():
    assert optimum([0.1, 0.2, 0.4], [3, 2, 1]).edge == "high"
    assert optimum([0.1, 0.2, 0.4], [1, 2, 3]).edge == "low"
    assert optimum([0.1, 0.2, 0.4], [1, 2, 3], bounds=(0.01, 1)).edge is None
    assert optimum([0.01, 0.2], [1, 2], bounds=(0.01, 1)).edge == "low"


def test_a_diverged_curve_has_no_optimum():
    assert optimum([0.1, 0.2], [math.inf, math.inf]) is None


@pytest.mark.parametrize(
    ("rates", "losses", "message"),
    [
        ([], [], "a loss for each rate"),
        ([0.1], [1, 2], "a loss for each rate"),
        ([0.1], [math.nan], "write a diverged run as infinity"),
        ([0.1], [-math.inf], "write a diverged run as infinity"),
        ([0.0], [1.0], "above 0"),
    ],
)
def test_bad_curves_say_what_is_wrong(rates, losses, message):
    with pytest.raises(DepthlrError, match=message):
        optimum(rates, losses)
