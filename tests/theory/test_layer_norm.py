"""The LayerNorm Jacobian and its operator norm (App. D.2).

Printed: |J| <= 2 gamma / s. Sharper and true: gamma / s, for the bracket is a projection less a part of itself.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.theory.montecarlo import gaussian, generator
from torch import Tensor
from torch.nn import functional as F


def scale(x: Tensor, eps: float) -> Tensor:
    """s(x): the root of variance plus eps."""
    return (x.var(unbiased=False) + eps).sqrt()


def bracket(x: Tensor, eps: float) -> Tensor:
    """I - 11^T / d - (Px)(Px)^T / (d s^2)."""
    d = len(x)
    centred = (x - x.mean())[:, None]
    eye, ones = torch.eye(d, dtype=x.dtype), torch.ones(d, d, dtype=x.dtype)
    return eye - ones / d - centred @ centred.T / (d * scale(x, eps) ** 2)


def jacobian(x: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """Eq. (ln-jac)."""
    return gamma[:, None] * bracket(x, eps) / scale(x, eps)


def operator_norm(matrix: Tensor) -> float:
    return torch.linalg.matrix_norm(matrix, 2).item()


inputs = st.tuples(
    st.integers(0, 10**6), st.integers(2, 24), st.floats(-3, 3), st.floats(-3, 3), st.sampled_from([1e-12, 1e-5, 0.3])
)


@given(inputs)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_jacobian_is_autograds_and_its_norm_is_at_most_gamma_over_s(drawn):
    seed, d, log_size, shift, eps = drawn
    source = generator(seed)
    x = 10**log_size * gaussian(source, d) + shift
    gamma, beta = gaussian(source, d), gaussian(source, d)
    ours = jacobian(x, gamma, eps)
    theirs = torch.autograd.functional.jacobian(lambda v: F.layer_norm(v, (d,), gamma, beta, eps), x)
    s = scale(x, eps).item()
    torch.testing.assert_close(s * ours, s * theirs, rtol=1e-7, atol=1e-7)
    top = gamma.abs().max().item()
    assert operator_norm(ours) <= top / s * (1 + 1e-9)
    assert operator_norm(ours) <= 2 * top / s  # as printed
    eigenvalues = torch.linalg.eigvalsh(bracket(x, eps))
    assert eigenvalues[0].item() >= -1e-9
    assert eigenvalues[-1].item() <= 1 + 1e-9


@pytest.mark.parametrize("d", [3, 16])
def test_the_sharper_bound_is_attained_and_the_printed_one_never(d):
    # a direction orthogonal to 1 and to x passes unchanged; it exists from dimension 3 on
    x = gaussian(generator(51), d)
    gamma = torch.full((d,), 1.7, dtype=torch.float64)
    assert operator_norm(jacobian(x, gamma, 1e-5)) == pytest.approx(1.7 / scale(x, 1e-5).item(), rel=1e-12)


def test_in_two_dimensions_only_eps_lets_anything_pass():
    x = gaussian(generator(52), 2)
    gamma = torch.ones(2, dtype=torch.float64)
    for eps in (1e-9, 0.5):
        s = scale(x, eps).item()
        assert operator_norm(jacobian(x, gamma, eps)) == pytest.approx(eps / s**3, rel=1e-6)
