"""GELU and the gating factor (App. "Why GELU"): chi = 2 q = 0.912 with He variance, and the drift of q with scale."""

import math

import pytest
import torch
from scipy import integrate, stats
from tests.theory.montecarlo import Estimate, assert_agrees, assert_differs, estimate, gaussian, generator, wide_limit
from torch.nn import functional as F

from depthlr.init.gating import gating_factor

DEPTH, INPUTS = 4, 16
HE = 2.0
AWARE = 1 / gating_factor("gelu")


def second_moment(std: float) -> float:
    """E[gelu(std Z)^2]."""

    def integrand(z: float) -> float:
        return (std * z * stats.norm.cdf(std * z)) ** 2 * stats.norm.pdf(z)

    return integrate.quad(integrand, -12, 12, epsabs=1e-12)[0]


def predicted(gain: float, depth: int) -> tuple[list[float], list[float]]:
    """Wide limit at weight variance gain / fan_in: std of z^(l), and the gradient's factor from z^(l+1) to z^(l)."""
    stds = [1.0]
    for _ in range(depth - 1):
        stds.append(math.sqrt(gain * second_moment(stds[-1])))
    return stds, [gain * gating_factor("gelu", std=s) for s in stds]


def measured(gain: float, width: int, networks: int) -> tuple[list[Estimate], Estimate]:
    """Mean square of z^(0), ..., z^(DEPTH - 1), and of the gradient at z^(0) over that at z^(DEPTH)."""
    source = generator(91)
    z = gaussian(source, networks, width, INPUTS)
    states, weights = [z / z.square().mean(1, keepdim=True).sqrt()], []
    for _ in range(DEPTH):
        weights.append(gaussian(source, networks, width, width, variance=gain / width))
        states.append(weights[-1] @ F.gelu(states[-1]))
    gradient = gaussian(source, networks, width, INPUTS)
    size = gradient.square().sum((1, 2))
    for weight, state in zip(reversed(weights), reversed(states[:-1]), strict=True):
        slope = torch.func.vmap(torch.func.grad(F.gelu))(state.flatten()).view_as(state)
        gradient = slope * (weight.transpose(1, 2) @ gradient)
    squares = [estimate(s.square().mean((1, 2))) for s in states[:-1]]
    return squares, estimate(gradient.square().sum((1, 2)) / size)


@pytest.mark.parametrize("gain", [HE, AWARE], ids=["He", "q-aware"])
def test_scale_and_gradient_follow_the_drifting_q(gain):
    stds, factors = predicted(gain, DEPTH)
    (narrow, narrow_gradient), (wide, wide_gradient) = measured(gain, 80, 700), measured(gain, 160, 500)
    for level in (2, DEPTH - 1):
        square = wide_limit(narrow[level], wide[level])
        assert_agrees(square, stds[level] ** 2, f"mean square of z^({level}), gain {gain:.3f}")
    gradient = wide_limit(narrow_gradient, wide_gradient)
    assert_agrees(gradient, math.prod(factors), f"gradient over {DEPTH} layers, gain {gain:.3f}")
    if gain == HE:
        assert_differs(gradient, (2 * gating_factor("gelu")) ** DEPTH, "gradient with He variance, against chi^DEPTH")


def test_one_layer_at_unit_scale_has_the_papers_chi():
    source = generator(92)
    z, v = gaussian(source, 40_000, 16), gaussian(source, 40_000, 16)
    slope = torch.func.vmap(torch.func.grad(F.gelu))(z.flatten()).view_as(z)
    chi = HE * (slope * v).square().mean(1)
    assert_agrees(chi, 0.912, "chi of one GELU layer with He variance")
    assert_differs(chi, 1.0, "chi of one GELU layer with He variance, against ReLU's")


def test_the_aware_variance_holds_the_gradient_better_but_not_for_ever():
    he, aware = (math.prod(predicted(gain, 8)[1]) for gain in (HE, AWARE))
    print(f"gradient over 8 layers, wide limit: He {he:.3f}, 0.912^8 = {0.912**8:.3f}, aware {aware:.3f}")
    assert he < 0.912**8 < aware < 1
    # the scale sinks, for E[gelu(Z)^2] / q = 0.933 < 1, and q sinks with it
    stds, factors = predicted(AWARE, 8)
    assert stds == sorted(stds, reverse=True)
    assert factors == sorted(factors, reverse=True)
    assert factors[0] == pytest.approx(1, abs=1e-12)


def test_q_moves_with_scale_for_gelu_and_not_for_relu():
    values = {std: gating_factor("gelu", std=std) for std in (0.5, 0.8, 1.0, 1.25)}
    print("q of GELU at std:", ", ".join(f"{std}: {q:.4f}" for std, q in values.items()))
    assert values[0.5] < values[0.8] < values[1.0] < values[1.25]
    assert {round(gating_factor("relu", std=std), 12) for std in values} == {0.5}
