"""Mini-batches (App. B): E[mean xi mean zeta] = E xi E zeta + Cov(xi, zeta) / B, and what follows for the rate."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.theory.montecarlo import assert_agrees, gaussian, generator, relu


@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=4),
    st.integers(1, 4),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_identity_is_exact_over_every_batch_that_can_be_drawn(pairs, batch):
    xi, zeta = np.array(pairs, dtype=float).T
    products = [
        xi[list(draw)].mean() * zeta[list(draw)].mean() for draw in itertools.product(range(len(pairs)), repeat=batch)
    ]
    covariance = (xi * zeta).mean() - xi.mean() * zeta.mean()
    assert np.mean(products) == pytest.approx(xi.mean() * zeta.mean() + covariance / batch, abs=1e-9)


FEATURES = 6
FIRST, SECOND = (2 * np.pi) ** -0.5, 0.5  # moments of relu(Z)
SIMILARITY = FEATURES * SECOND**2 + FEATURES * (FEATURES - 1) * FIRST**4  # E[(phi . psi)^2] of two inputs' features
SHARED = FEATURES * FIRST**2 * SECOND + FEATURES * (FEATURES - 1) * FIRST**4  # the same with phi averaged first


def step_energy(batch: int, label_mean: float, draws: int) -> torch.Tensor:
    """(draws,): squared change of a zero-initialized linear readout at a probe input, after one SGD step at rate 1.

    The labels are independent of the features, so with label_mean = 0 the mean gradient vanishes.
    """
    source = generator(71)
    features = relu(gaussian(source, draws, batch, FEATURES))
    labels = label_mean + gaussian(source, draws, batch)
    probe = relu(gaussian(source, draws, FEATURES))
    gradient = (labels[:, :, None] * features).mean(1)
    return (gradient * probe).sum(1).square()


@pytest.mark.parametrize("batch", [1, 4, 16])
def test_without_a_mean_gradient_the_rate_grows_as_the_root_of_the_batch(batch):
    energy = assert_agrees(step_energy(batch, 0.0, 100_000), SIMILARITY / batch, f"energy at batch {batch}, zero mean")
    rate = (energy.mean / SIMILARITY) ** -0.5  # rate = energy^(-1/2), in units of that at batch 1
    print(f"rate at batch {batch} over batch 1: {rate:.3f}, sqrt(B) = {batch**0.5:.3f}")
    assert rate == pytest.approx(batch**0.5, rel=0.05)


@pytest.mark.parametrize("batch", [4, 16, 64])
def test_with_a_mean_gradient_the_batch_only_corrects(batch):
    mean = 1.5
    limit, single = mean**2 * SHARED, (mean**2 + 1) * SIMILARITY
    theory = limit + (single - limit) / batch
    assert_agrees(step_energy(batch, mean, 24_000), theory, f"energy at batch {batch}, mean label {mean}")
