"""Sums that the paper's text does over its own tables."""

from statistics import mean

import numpy as np
import pytest

MAIN = [-1.339, -1.392, -1.329, -1.435, -1.355, -1.567, -1.441, -1.371, -1.178]
ABLATIONS = [-1.339, -1.379, -1.207, -1.435, -1.701, -1.568, -1.269, -1.131, -1.178]


def test_the_main_exponents_average_as_printed():
    assert mean(MAIN) == pytest.approx(-1.38, abs=0.005)


def test_the_ablation_exponents_average_to_1_356_not_1_39():
    assert mean(ABLATIONS) == pytest.approx(-1.356, abs=0.0005)
    assert abs(mean(ABLATIONS) + 1.39) > 0.03


def test_the_audio_exponent_is_the_plain_fit_of_its_four_points():
    depth, rate = np.log10([6, 10, 14, 18]), np.log10([6.31e-2, 2.39e-2, 2.39e-2, 9.03e-3])
    slope = np.polyfit(depth, rate, 1)[0]
    assert slope == pytest.approx(-1.578, abs=0.01)
    assert np.corrcoef(depth, rate)[0, 1] ** 2 == pytest.approx(0.891, abs=0.005)


@pytest.mark.parametrize(("blocks", "printed"), [(6, 6.231e-3), (8, 4.274e-3), (10, 3.163e-3), (20, 1.199e-3)])
def test_the_zero_shot_rates_count_two_units_a_block_and_two_for_stem_and_head(blocks, printed):
    assert 2.462e-3 * ((2 * blocks + 2) / 26) ** -1.5 == pytest.approx(printed, rel=1e-3)
