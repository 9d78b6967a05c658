"""How the energy of one SGD step grows with depth (App. B.3, C.2), with every weight at rate 1 and one sample.

B^(l), the part of the energy that the labels drive, is measured as the mean square over units of
Theta = sum over weights up to layer l of d z^(l) d z^(out). Paper: B = kappa sum min(h1, h2) = kappa l(l+1)(2l+1)/6.
Wide fully connected ReLU stacks give (2 l^3 + l) / 3 instead: two weights h1, h2 share 1 + 2 min(l - h1, l - h2), for
the square of an off-diagonal entry of J J^T gains 1/(q n) = 2/n a layer. The same l^3, another polynomial.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.theory.montecarlo import (
    LINE,
    POINT,
    Estimate,
    assert_agrees,
    assert_differs,
    estimate_given,
    forward,
    gate,
    gaussian,
    generator,
    he_weights,
    ratio_of_means,
    relu,
    tangents,
    torus_neighbours,
    wide_limit,
)
from tests.theory.overlap import overlap_sum
from torch import Tensor

DEPTH = 6


def shared_units(layer: int) -> float:
    """sum over h1, h2 = 1..l of 1 + 2 min(l - h1, l - h2)."""
    return (2 * layer**3 + layer) / 3


def plain_stack(width: int, networks: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """(networks, DEPTH) each: B^(l), A^(l) with the head on layer l and averaged out, and the excess of open gates.

    Each state is rescaled to |relu(z)|^2 = width / 2, its wide limit. That leaves gates and Jacobians as they are, and
    takes out most of the noise at finite width, where forward norms drift from layer to layer as a random walk. Most of
    the rest comes from the number of open gates: binomial(width, 1/2), independent between layers, a control variate.
    """
    source = generator(seed)
    x = torch.full((width,), math.sqrt(0.5), dtype=torch.float64)  # |relu(x)|^2 = width / 2
    label_part, output_part, open_gates = [], [], []
    for _ in range(networks):
        z = x
        shared = torch.zeros(width, width, dtype=torch.float64)  # sum over h of J J^T, J from layer h to this one
        label_levels, output_levels, excess = [], [], []
        for _ in range(DEPTH):
            weight = gaussian(source, width, width, variance=2 / width)
            carry = weight * gate(z)
            shared = torch.addmm(torch.eye(width, dtype=torch.float64), carry @ shared, carry.T)
            z = weight @ relu(z)
            z = z * (math.sqrt(width / 2) / relu(z).norm())
            # Theta_a = (width / 2) v . (gate * shared_a) for a head v of variance 2 / width; out = v . relu(z)
            theta_square = (shared.square() @ gate(z)).mean()
            with_output = theta_square * relu(z).square().sum() + 2 * (shared @ relu(z)).square().mean()  # Isserlis
            label_levels.append(theta_square * 2 / width)
            output_levels.append(with_output * (2 / width) ** 2)
            excess.append(2 * gate(z).mean() - 1)
        label_part.append(torch.stack(label_levels))
        output_part.append(torch.stack(output_levels))
        open_gates.append(torch.stack(excess))
    return width * torch.stack(label_part), width * torch.stack(output_part), torch.stack(open_gates)


@pytest.fixture(scope="module")
def stacks():
    return plain_stack(96, 500, seed=31), plain_stack(192, 350, seed=32)


def at_layer(stacks, part: int, layer: int) -> Estimate:
    """The energy at a layer in units of the energy at layer 1, in the limit of infinite width."""
    return wide_limit(*(estimate_given(s[part][:, layer - 1], s[2][:, :layer]) for s in stacks))


@given(st.integers(1, 60))
@settings(derandomize=True, deadline=None)
def test_the_sum_of_minima_is_the_closed_form(layer):
    brute = sum(min(a, b) for a in range(1, layer + 1) for b in range(1, layer + 1))
    assert brute == layer * (layer + 1) * (2 * layer + 1) // 6 == overlap_sum(layer)
    pairs = sum(1 + 2 * min(layer - a, layer - b) for a in range(1, layer + 1) for b in range(1, layer + 1))
    assert pairs == shared_units(layer)


def test_the_step_along_an_outputs_gradient_is_a_sum_of_jacobian_squares():
    # Theta = sum over h of |relu(z^(h-1))|^2 J J^T (gate * v): the identity on which `plain_stack` rests, by autograd
    source = generator(30)
    width = 7
    weights = [gaussian(source, 1, width, width, variance=2 / width) for _ in range(4)]
    head, x = gaussian(source, 1, 1, width), gaussian(source, 1, width, 1)
    steps = circular_steps(weights, head, x, POINT)
    z, shared = x[0], torch.zeros(width, width, dtype=torch.float64)
    for weight in weights:
        carry = weight[0] * gate(z).T
        shared = relu(z).square().sum() * torch.eye(width, dtype=torch.float64) + carry @ shared @ carry.T
        z = weight[0] @ relu(z)
    torch.testing.assert_close(steps[-1][0], shared @ (gate(z) * head[0].T))


@pytest.mark.parametrize("layer", range(2, DEPTH + 1))
def test_label_energy_of_a_wide_stack_is_two_thirds_of_the_cube(stacks, layer):
    assert_agrees(at_layer(stacks, 0, layer), shared_units(layer), f"B^({layer}) / B^(1), width to infinity")


@pytest.mark.parametrize("layer", [2, 4, DEPTH])
def test_label_energy_is_not_one_constant_times_the_sum_of_minima(stacks, layer):
    assert_differs(at_layer(stacks, 0, layer), overlap_sum(layer), f"B^({layer}) / B^(1) against sum min(h1, h2)")


@pytest.mark.parametrize("layer", [2, 4, DEPTH])
def test_output_energy_is_cubic_too_and_not_quadratic(stacks, layer):
    # A is driven by the network's own output, B by the labels; both enter through z - y, so for an output of variance 1
    # (here) and labels of variance 1 they are the same.
    measured = at_layer(stacks, 1, layer)
    assert_agrees(measured, shared_units(layer), f"A^({layer}) / A^(1), width to infinity")
    assert_differs(measured, layer**2, f"A^({layer}) / A^(1) against the square")


def circular_steps(weights: list[Tensor], head: Tensor, x: Tensor, neighbours: Tensor) -> list[Tensor]:
    """(networks, channels, sites) a layer: the step along the gradient of one output of a CNN with a pooled head."""
    weights = [w.detach().requires_grad_() for w in weights]
    out = head @ relu(forward(weights, x, neighbours)[-1]).mean(2, keepdim=True)
    gradient = torch.autograd.grad(out.sum(), weights)
    return [dz for _, dz in tangents([w.detach() for w in weights], x, neighbours, gradient)]


def test_equal_sites_make_a_cnn_a_fully_connected_stack():
    # The kernel then acts as the sum over its offsets, each of which takes the same step: 3 offsets, 3 times the step.
    # So with sites alike from the start the growth of a CNN is that of the stack above, to the last digit.
    source = generator(33)
    channels, networks, offsets = 10, 5, len(LINE)
    weights = he_weights(source, networks, channels, DEPTH, LINE)
    head = gaussian(source, networks, 1, channels)
    x = gaussian(source, networks, channels, 1)
    summed = [w.unflatten(2, (channels, offsets)).sum(3) for w in weights]
    circular = circular_steps(weights, head, x.expand(-1, -1, LINE.shape[1]), LINE)
    connected = circular_steps(summed, head, x, POINT)
    for ours, theirs in zip(circular, connected, strict=True):
        torch.testing.assert_close(ours, offsets * theirs.expand_as(ours))


def test_energy_of_a_cnn_outgrows_the_cube_while_its_sites_become_alike():
    # ReLU layers pull the sites of an image together, so the gradients of more and more sites add up
    neighbours = torus_neighbours((8,), [(-1,), (0,), (1,)])
    measured = []
    for channels, networks in [(48, 300), (96, 150)]:
        source = generator(34)
        x = gaussian(source, 1, channels, 8).expand(networks, -1, -1)
        weights = he_weights(source, networks, channels, 8, neighbours)
        head = gaussian(source, networks, 1, channels, variance=2 / channels)
        energy = [dz.square().flatten(1).mean(1) for dz in circular_steps(weights, head, x, neighbours)]
        measured.append(ratio_of_means(energy[7], energy[3]))
    ratio = wide_limit(*measured)
    exponent = Estimate(math.log2(ratio.mean), ratio.error / ratio.mean / math.log(2))
    assert_differs(exponent, 3.0, "circular CNN, white input: exponent of B^(l) from l = 4 to 8")
    assert exponent.mean > 3


def residual_stack(width: int, blocks: int, networks: int, seed: int) -> Tensor:
    """(networks,): mean energy over the blocks of z <- z + W relu(z), W of variance 1 / (q K width)."""
    source = generator(seed)
    energies = []
    for _ in range(networks):
        weights = [gaussian(source, width, width, variance=2 / (blocks * width)) for _ in range(blocks)]
        head = gaussian(source, 16, width, variance=2 / width)  # 16 outputs: fresh looks at one network
        z = [gaussian(source, width, 1)]
        for weight in weights:
            z.append(z[-1] + weight @ relu(z[-1]))
        back = [head.T * gate(z[-1])]
        for level in range(blocks - 1, 0, -1):
            back.append(back[-1] + (weights[level].T @ back[-1]) * gate(z[level]))
        total, dz = 0.0, torch.zeros(width, 16, dtype=torch.float64)
        for level, weight in enumerate(weights):
            step = back[blocks - 1 - level] * relu(z[level]).square().sum()
            dz = dz + weight @ (gate(z[level]) * dz) + step
            total = total + dz.square().mean()
        energies.append(total / blocks)
    return torch.stack(energies)


def test_energy_of_a_residual_stack_is_nearer_the_square_than_the_cube():
    # 1 + (2/K) min(l - h1, l - h2) instead of 1 + 2 min(...): the sum is of order K^2, the energy rate of order 1/K
    few, many = 8, 32
    small, large = residual_stack(64, few, 500, seed=36), residual_stack(64, many, 250, seed=37)
    spread = math.hypot(
        small.std().item() / small.mean().item() / math.sqrt(len(small)),
        large.std().item() / large.mean().item() / math.sqrt(len(large)),
    )
    ratio = large.mean().item() / small.mean().item()
    exponent = Estimate(math.log(ratio, many / few), spread / math.log(many / few))
    assert_differs(exponent, 3.0, f"exponent of the mean energy, {few} to {many} residual blocks, width 64")
    print(f"exponent of the energy rate: {-exponent.mean / 2:.3f} +- {exponent.error / 2:.2g}; the law says -1.5")
    assert abs(exponent.mean - 2.1) <= 4 * exponent.error + 0.1
    assert exponent.error < 0.1
