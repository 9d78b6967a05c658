"""The rate over draws: the middle of the logarithms, and the standard error that repeated draws show."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthlr.energy.persistent import DRAW_SCATTER, PersistentEnergy, rate_over_draws
from depthlr.errors import DepthlrError

ENERGIES = st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=9)


def of(energy: float, total: float | None = None) -> PersistentEnergy:
    return PersistentEnergy(energy, energy if total is None else total, 1.0, 1.0, 4)


@given(ENERGIES)
def test_it_is_the_geometric_mean_of_the_draws_rates(energies) -> None:
    found = rate_over_draws([of(energy) for energy in energies])
    assert found.rate == pytest.approx(math.prod(e ** (-0.5 / len(energies)) for e in energies))
    several = len(energies)
    assert found.standard_error is None if several == 1 else found.standard_error >= DRAW_SCATTER / several


@given(ENERGIES, st.floats(1e-3, 1e3))
def test_a_common_factor_moves_the_rate_and_leaves_its_error(energies, factor) -> None:
    found, other = (rate_over_draws([of(scale * energy) for energy in energies]) for scale in (1.0, factor))
    assert other.decades == pytest.approx(found.decades - 0.5 * math.log10(factor), abs=1e-9)
    assert other.standard_error == pytest.approx(found.standard_error, abs=1e-9)


def test_the_error_is_the_scatter_that_repeated_draws_show() -> None:
    draw = np.random.default_rng(0)
    found = [rate_over_draws([of(energy) for energy in np.exp(draw.normal(0, 1, 32))]) for _ in range(400)]
    errors = np.square([one.standard_error for one in found])
    assert math.sqrt(errors.mean()) == pytest.approx(np.std([one.decades for one in found]), rel=0.1)


def test_few_draws_that_agree_may_do_so_by_chance_and_one_says_nothing_of_scatter() -> None:
    found = [rate_over_draws([of(4.0)] * several).standard_error for several in (1, 2, 4)]
    assert found == [None, pytest.approx(DRAW_SCATTER / 2), pytest.approx(DRAW_SCATTER / 4)]


def test_noise_hides_energies_in_all_draws_alike() -> None:
    sure, noise = of(1.0), of(0.01, 8.0)  # of one rate, the second's by the least share of its total
    for noisy in range(5):
        found = rate_over_draws([noise] * noisy + [sure] * (4 - noisy))
        assert found.rate == pytest.approx(1)
        assert found.standard_error == pytest.approx(math.hypot(DRAW_SCATTER / 4, noisy / 4 * 0.5 * math.log10(8)))
        assert found.noisy is (noisy >= 2)


@pytest.mark.parametrize("energy", [0.0, math.inf, math.nan])
def test_a_draw_without_a_rate_is_refused(energy) -> None:
    with pytest.raises(DepthlrError, match="no rate can be read"):
        rate_over_draws([of(1.0), of(energy)])
