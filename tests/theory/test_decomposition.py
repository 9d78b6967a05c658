"""Lemma 2: E[(Delta z^(l))^2] = A + B after one SGD step on the loss |z - y|^2 / (2M), M outputs.

With Theta = d_theta z^(l) . d_theta z^(out) summed over the weights up to l, A = (1/M^2) (Theta . z)^2 and
B = (sigma_y^2 / M^2) |Theta|^2. The paper prints B with T_(L+1) = (1/M) sum_t, which lacks one of the two 1/M.
"""

import pytest
import torch
from tests.theory.montecarlo import (
    LINE,
    assert_agrees,
    assert_differs,
    estimate,
    forward,
    gaussian,
    generator,
    he_weights,
    ratio_of_means,
    relu,
    tangents,
)
from torch import Tensor

CHANNELS, LAYERS, OUTPUTS, NETWORKS, LABEL_STD = 12, 3, 3, 3000, 1.2
RATE = 1e-6  # a true step, small enough that the linearised change is all there is


def network(weights, head: Tensor, x: Tensor) -> tuple[list[Tensor], Tensor]:
    """Circular CNN, mean over sites, linear head: hidden pre-activations and (networks, outputs)."""
    states = forward(weights, x, LINE)
    return states, (head @ relu(states[-1]).mean(2, keepdim=True)).squeeze(2)


@pytest.fixture(scope="module")
def step():
    """(networks, layers): the mean square change a unit really makes, and the parts A and B, all at rate 1."""
    source = generator(21)
    x = gaussian(source, 1, CHANNELS, LINE.shape[1]).expand(NETWORKS, -1, -1)
    weights = [w.requires_grad_() for w in he_weights(source, NETWORKS, CHANNELS, LAYERS, LINE)]
    head = gaussian(source, NETWORKS, OUTPUTS, CHANNELS, variance=2 / CHANNELS)
    halves = [LABEL_STD * gaussian(source, NETWORKS, OUTPUTS) for _ in range(3)]
    labels = [sign * y for y in halves for sign in (1, -1)]  # pairs, so that the cross term of z and y cancels

    before, out = network(weights, head, x)
    changes = []
    for y in labels:
        loss = (out - y).square().sum() / (2 * OUTPUTS)  # networks share nothing: one backward serves all
        gradient = torch.autograd.grad(loss, weights, retain_graph=True)
        with torch.no_grad():
            after, _ = network([w - RATE * g for w, g in zip(weights, gradient, strict=True)], head, x)
            moves = [(b - a) / RATE for a, b in zip(before, after, strict=True)]
            changes.append(torch.stack([m.square().flatten(1).mean(1) for m in moves], 1))
    change = torch.stack(changes).mean(0)
    output_gradients = [torch.autograd.grad(out[:, t].sum(), weights, retain_graph=True) for t in range(OUTPUTS)]
    weights = [w.detach() for w in weights]

    theta = []  # per output: d z^(l) along the output's gradient, every unit of every layer
    for direction in output_gradients:
        theta.append(torch.stack([dz.flatten(1) for _, dz in tangents(weights, x, LINE, direction)], 1))
    theta = torch.stack(theta, 3)  # (networks, layers, units, outputs)
    a = (theta @ out.detach()[:, None, :, None]).squeeze(3).square().mean(2) / OUTPUTS**2
    b_printed = LABEL_STD**2 * theta.square().sum(3).mean(2) / OUTPUTS
    return change, a, b_printed


@pytest.mark.parametrize("layer", range(1, LAYERS + 1))
def test_the_change_is_a_plus_b_with_a_second_factor_one_over_outputs(step, layer):
    change, a, b_printed = (part[:, layer - 1] for part in step)
    mended = a + b_printed / OUTPUTS
    print(f"layer {layer}: E[change^2] {estimate(change).mean:.4g}, mended {mended.mean():.4g}", end=", ")
    print(f"printed {(a + b_printed).mean():.4g}")
    assert_agrees(ratio_of_means(change, mended), 1.0, "E[change^2] / (A + B/M)")
    assert_differs(ratio_of_means(change, a + b_printed), 1.0, "E[change^2] / (A + B as printed)")


def test_without_the_a_part_the_sum_falls_short(step):
    change, _, b_printed = (part[:, -1] for part in step)
    short = assert_differs(ratio_of_means(change, b_printed / OUTPUTS), 1.0, "E[change^2] / (B/M) alone")
    assert short.mean > 1
