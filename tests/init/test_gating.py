"""q = E[sigma'(std Z)^2] against closed forms and scipy's adaptive quadrature."""

import copy
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from torch import nn
from torch.nn import functional as F

from depthlr.errors import DepthlrError
from depthlr.init.gating import ACTIVATION_FUNCTIONS, gating_factor

# derivative by hand, and where it breaks
DERIVATIVES = {
    "gelu": (lambda x: stats.norm.cdf(x) + x * stats.norm.pdf(x), []),
    "tanh": (lambda x: 1 / math.cosh(x) ** 2, []),
    "sigmoid": (lambda x: 1 / (2 + math.exp(x) + math.exp(-x)), []),
    "silu": (lambda x: (1 + math.exp(-x) + x * math.exp(-x)) / (1 + math.exp(-x)) ** 2, []),
    "softplus": (lambda x: 1 / (1 + math.exp(-x)), []),
    "elu": (lambda x: 1.0 if x > 0 else math.exp(x), [0]),
    "hardswish": (lambda x: 0.0 if x < -3 else 1.0 if x > 3 else (2 * x + 3) / 6, [-3, 3]),
    "softshrink": (lambda x: float(abs(x) > 0.5), [-0.5, 0.5]),
}


def by_scipy(derivative, breaks, std=1.0):
    def integrand(x):
        return derivative(x) ** 2 * stats.norm.pdf(x, scale=std)

    ends = [-12 * std, *[b for b in [*breaks, -1.0, 1.0] if abs(b) < 12 * std], 12 * std]
    ends = sorted(set(ends))
    return sum(
        integrate.quad(integrand, a, b, epsabs=1e-14, epsrel=1e-13, limit=500)[0] for a, b in itertools.pairwise(ends)
    )


@pytest.mark.parametrize("std", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("name", DERIVATIVES)
def test_named_activations_agree_with_scipy(name, std):
    derivative, breaks = DERIVATIVES[name]
    assert gating_factor(name, std=std) == pytest.approx(by_scipy(derivative, breaks, std), abs=1e-10)


def test_closed_forms():
    normal = stats.norm
    assert gating_factor("relu") == pytest.approx(1 / 2, abs=1e-12)
    assert gating_factor("identity") == pytest.approx(1, abs=1e-12)
    assert gating_factor("leaky_relu") == pytest.approx((1 + 0.01**2) / 2, abs=1e-12)
    assert gating_factor("hardtanh") == pytest.approx(2 * normal.cdf(1) - 1, abs=1e-9)
    assert gating_factor("relu6") == pytest.approx(normal.cdf(6) - 0.5, abs=1e-9)
    # torch's own derivative of hardsigmoid holds 1/6 in float32
    assert gating_factor("hardsigmoid") == pytest.approx((2 * normal.cdf(3) - 1) / 36, rel=1e-7)
    assert gating_factor("relu_squared") == pytest.approx(2, abs=1e-10)  # E[4 Z^2; Z > 0]
    assert gating_factor(torch.exp) == pytest.approx(math.exp(2), rel=1e-10)
    assert gating_factor(torch.sin) == pytest.approx((1 + math.exp(-2)) / 2, abs=1e-10)
    # GELU: E[Phi^2] = 1/3, 2 E[Z Phi phi] = E[phi^2] = 1/(2 pi sqrt 3) by parts, E[Z^2 phi^2] = 1/(6 pi sqrt 3)
    assert gating_factor("gelu") == pytest.approx(1 / 3 + 2 / (3 * math.sqrt(3) * math.pi), abs=1e-12)


def test_gelu_is_the_papers_number():
    assert gating_factor("gelu") == pytest.approx(0.456, abs=5e-4)
    assert 2 * gating_factor("gelu") == pytest.approx(0.912, abs=5e-4)


@given(st.floats(-2.5, 2.5), st.floats(0.1, 4.0))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_jump_anywhere_is_found(threshold, std):
    q = gating_factor(lambda x: F.relu(x - threshold), std=std)
    assert q == pytest.approx(stats.norm.sf(threshold / std), abs=1e-9)


@given(st.floats(0.01, 100.0))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_scale_free_activations_have_a_scale_free_factor(std):
    assert gating_factor("relu", std=std) == pytest.approx(0.5, abs=1e-11)
    assert gating_factor("identity", std=std) == pytest.approx(1, abs=1e-11)


def test_gelu_runs_from_a_half_slope_to_relu_as_its_input_grows():
    assert gating_factor("gelu", std=1e-3) == pytest.approx(0.25, abs=1e-5)
    assert gating_factor("gelu", std=1e3) == pytest.approx(0.5, abs=1e-3)
    stds = [0.25, 0.5, 1.0, 2.0, 8.0]
    factors = [gating_factor("gelu", std=s) for s in stds]
    assert factors[:4] == sorted(factors[:4])


@pytest.mark.parametrize("name", ACTIVATION_FUNCTIONS)
def test_every_name_agrees_with_monte_carlo(name):
    x = torch.randn(400_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    (slope,) = torch.autograd.grad(ACTIVATION_FUNCTIONS[name](x).sum(), x)
    squares = slope.square()
    error = squares.std() / math.sqrt(len(squares))
    assert abs(squares.mean().item() - gating_factor(name)) <= 4 * error.item() + 1e-12


def test_module_function_and_name_agree():
    assert gating_factor(nn.GELU()) == gating_factor("gelu") == gating_factor(F.gelu) == gating_factor(" GELU ")
    assert gating_factor(nn.LeakyReLU(0.2)) == pytest.approx((1 + 0.04) / 2, abs=1e-12)
    assert gating_factor(nn.Sequential(nn.Tanh(), nn.Identity())) == pytest.approx(gating_factor("tanh"), abs=1e-12)


@pytest.mark.parametrize("channels", [1, 5])
def test_prelu_counts_the_mean_square_of_its_slopes(channels):
    module = nn.PReLU(channels)
    with torch.no_grad():
        module.weight.copy_(torch.linspace(-0.5, 0.5, channels) + 0.1)
    expected = (1 + module.weight.double().square().mean().item()) / 2
    assert gating_factor(module) == pytest.approx(expected, abs=1e-9)


class _Scaled(nn.Module):
    """An activation with a parameter, a buffer, and state that running would change."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        return self.gain * torch.tanh(x)


def test_the_module_is_left_as_it_was():
    module = _Scaled()
    module.gain.grad = torch.tensor(7.0)
    before = copy.deepcopy(module.state_dict())
    assert gating_factor(module) == pytest.approx(2.25 * gating_factor("tanh"), abs=1e-10)
    assert {k: v.tolist() for k, v in module.state_dict().items()} == {k: v.tolist() for k, v in before.items()}
    assert module.gain.grad.item() == 7.0
    assert module.gain.dtype == torch.float32
    assert module.gain.requires_grad


def test_it_works_where_gradients_are_off():
    with torch.no_grad():
        assert gating_factor("tanh") == gating_factor(torch.tanh)
    with torch.inference_mode():
        assert gating_factor(nn.ReLU()) == pytest.approx(0.5, abs=1e-12)


def test_the_answer_is_a_plain_float():
    assert type(gating_factor("gelu")) is float
    assert type(gating_factor(torch.exp, std=0.5)) is float


@pytest.mark.parametrize(
    ("activation", "words"),
    [
        ("rellu", "activation is 'rellu' .did you mean 'relu'"),
        (lambda x: x.sum(), "turned shape"),
        (lambda x: x.reshape(2, -1), "turned shape"),
        (lambda x: None, "is no pointwise function"),
        (torch.sqrt, "not finite"),
        (torch.log, "not finite"),
        (lambda x: torch.zeros_like(x), "is no pointwise function that autograd differentiates"),
        (lambda x: F.softmax(x, dim=0), "mixes its inputs"),
        (nn.Dropout(0.5), "mixes its inputs or is random"),
        (nn.Conv2d(1, 1, 3), "is no pointwise function"),
        (3, "not int"),
    ],
)
def test_bad_activations_get_one_sentence(activation, words):
    with pytest.raises(DepthlrError, match=words):
        gating_factor(activation)


@pytest.mark.parametrize("std", [0.0, -1.0, math.inf, math.nan])
def test_bad_scales_are_refused(std):
    with pytest.raises(DepthlrError, match="std is"):
        gating_factor("relu", std=std)
