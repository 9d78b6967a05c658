"""Size-keeping convolutions against sums of rolled or shifted inputs."""

import itertools
import warnings

import pytest
import torch

from depthlr.models import CNN, CNN1d
from depthlr.models.convolution import same_convolution


def weight_of(module):
    (weight,) = module.parameters()
    return weight


def by_rolls(x, weight):
    """Eq. 3 term by term: z[j, p] = sum over i and Delta of W[j, i, Delta] x[i, p + Delta], p + Delta on the torus."""
    total = 0
    axes = tuple(range(2, x.ndim))
    for tap in itertools.product(*(range(k) for k in weight.shape[2:])):
        shift = tuple((k - 1) // 2 - t for t, k in zip(tap, weight.shape[2:], strict=True))  # -Delta
        rolled = torch.roll(x, shift, axes)
        total = total + torch.einsum("ji,bi...->bj...", weight[(slice(None), slice(None), *tap)], rolled)
    return total


def embedded(x, margin):
    """x in the middle of a sea of zeros, so wide that going round the torus meets only zeros."""
    return torch.nn.functional.pad(x, (margin, margin) * (x.ndim - 2))


@pytest.mark.parametrize("dimensions", [1, 2])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
def test_circular_convolution_is_a_sum_of_rolls(dimensions, kernel):
    torch.manual_seed(kernel)
    x = torch.randn(2, 3, *(7, 6)[:dimensions], dtype=torch.float64)
    convolution = same_convolution(dimensions, 3, 4, kernel, padding="circular").double()
    torch.testing.assert_close(convolution(x), by_rolls(x, weight_of(convolution)))


@pytest.mark.parametrize("dimensions", [1, 2])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
def test_zero_convolution_is_a_sum_of_rolls_in_a_sea_of_zeros(dimensions, kernel):
    torch.manual_seed(kernel)
    x = torch.randn(2, 3, *(7, 6)[:dimensions], dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns about padding="same" with an even kernel; ours must stay quiet
        convolution = same_convolution(dimensions, 3, 4, kernel, padding="zeros").double()
        found = convolution(x)
    middle = (..., *[slice(5, -5)] * dimensions)
    expected = by_rolls(embedded(x, 5), weight_of(convolution))[middle]
    assert found.shape[2:] == x.shape[2:]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("kernel", [2, 3, 4, 5])
def test_circular_convolution_commutes_with_rolls(kernel):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 6, dtype=torch.float64)
    convolution = same_convolution(2, 3, 3, kernel).double()
    torch.testing.assert_close(convolution(x.roll((3, -2), (2, 3))), convolution(x).roll((3, -2), (2, 3)))


def test_circular_cnn_is_blind_to_rolls_and_the_zero_padded_one_is_not():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    circular = CNN(layers=3, width=4, kernel=4).double()
    zeros = CNN(layers=3, width=4, kernel=4, padding="zeros").double()
    torch.testing.assert_close(circular(x.roll(3, 2)), circular(x))
    assert (zeros(x.roll(3, 2)) - zeros(x)).abs().max() > 1e-4


def test_cnn_is_convolution_activation_pooling_head():
    torch.manual_seed(0)
    for model, space in ((CNN(layers=3, width=4), (5, 4)), (CNN1d(layers=3, width=4), (9,))):
        model.double()
        x = torch.randn(2, 3, *space, dtype=torch.float64)
        z = x
        for layer in model.layers:
            z = by_rolls(z, weight_of(layer)).clamp(min=0)
        expected = z.flatten(2).mean(2) @ model.head.weight.T + model.head.bias
        torch.testing.assert_close(model(x), expected)
