"""Finite channels (App. B): E[T^2 | below] = (E[T | below])^2 + Var(X_1 | below) / C, X_1 the overlap of one channel.

For Gaussian weights X = w' M w with M = mean over sites of a b', so Var X = s^4 (|M|^2 + tr M M), exactly.
"""

import pytest
import torch
from tests.theory.montecarlo import (
    LINE,
    POINT,
    SQUARE,
    assert_agrees,
    assert_differs,
    gate,
    gaussian,
    generator,
    overlap,
    patches,
)


@pytest.mark.parametrize("neighbours", [POINT, LINE, SQUARE], ids=["dense", "1-D", "2-D"])
@pytest.mark.parametrize("channels", [2, 8, 32])
def test_the_excess_of_the_squared_overlap_is_one_over_channels(neighbours, channels):
    source = generator(81)
    below, sites, draws = 5, neighbours.shape[1], 24_000 if channels > 2 else 80_000
    gates = gate(gaussian(source, 1, below, sites))
    u = gaussian(source, 1, below, sites)
    a = patches(gates * u, neighbours)[0]  # (fan_in, sites)
    b = patches(gates * (u + 0.5 * gaussian(source, 1, below, sites)), neighbours)[0]
    variance = 2 / len(a)
    form = a @ b.T / sites
    mean = variance * form.trace().item()
    one_channel = variance**2 * (form.square().sum() + (form @ form).trace()).item()

    weight = gaussian(source, draws, channels, len(a), variance=variance)
    t = overlap(weight @ a, weight @ b)
    assert_agrees(t, mean, f"E[T | below], {channels} channels")
    assert_agrees((t - mean).square(), one_channel / channels, f"E[T^2] - E[T]^2, {channels} channels")
    if channels == 2:
        assert_differs(t.square(), mean**2, "E[T^2] against E[T]^2")


def test_the_excess_does_not_depend_on_the_number_of_sites_alone():
    # sites share their weights, so more of them do not average the weights out: equal sites leave the excess as it is
    source = generator(82)
    a = gaussian(source, 6)
    weight = gaussian(source, 20_000, 4, 6, variance=2 / 6)
    one = overlap(weight @ a[:, None], weight @ a[:, None])
    many = overlap(weight @ a[:, None].expand(-1, 50), weight @ a[:, None].expand(-1, 50))
    torch.testing.assert_close(one, many)
