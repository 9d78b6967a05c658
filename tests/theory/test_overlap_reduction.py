"""Lemma 1, the top-layer reduction of T_h(mu_1, mu_2) = mean over units of d_mu1 z^(h) d_mu2 z^(h).

True at any width (ReLU, circular padding, fan-in variance, l < h <= L): E[T_h] = E[T_l] when both directions lie in
layer l, or both below it. Not true as printed:
- given z^(l), for the gates of layer l are then fixed, and E[T_h | z^(l)] = (1/q) T~_l;
- for one direction in layer l and one below it: flipping W^(l) turns only one of the two derivatives;
- for h = L + 1 through a pooled head.
"""

import math

import pytest
import torch
from tests.theory.montecarlo import (
    LINE,
    SQUARE,
    assert_agrees,
    assert_differs,
    estimate,
    gate,
    gaussian,
    generator,
    he_weights,
    overlap,
    patches,
    ratio_of_means,
    tangents,
)
from torch import Tensor

CHANNELS, LAYERS, NETWORKS = 10, 6, 5000
GRIDS = pytest.mark.parametrize("neighbours", [LINE, SQUARE], ids=["1-D", "2-D"])


def dense_direction(source: torch.Generator, neighbours: Tensor, *layers: int) -> list[Tensor | None]:
    fan_in = CHANNELS * len(neighbours)
    return [gaussian(source, CHANNELS, fan_in) if h in layers else None for h in range(1, LAYERS + 1)]


def one_parameter(neighbours: Tensor, layer: int, channel: int, column: int) -> list[Tensor | None]:
    direction: list[Tensor | None] = [None] * LAYERS
    direction[layer - 1] = torch.zeros(CHANNELS, CHANNELS * len(neighbours), dtype=torch.float64)
    direction[layer - 1][channel, column] = 1.0
    return direction


def overlaps(weights, x, neighbours, first, second) -> Tensor:
    """(layers, networks): T_h along two directions."""
    along_first = tangents(weights, x, neighbours, first)
    along_second = tangents(weights, x, neighbours, second)
    return torch.stack([overlap(u, v) for (_, u), (_, v) in zip(along_first, along_second, strict=True)])


@GRIDS
@pytest.mark.parametrize(("layers", "start"), [((2,), 2), ((1, 2), 3)], ids=["in layer l", "below layer l"])
def test_expected_overlap_is_the_same_at_every_layer_above(neighbours, layers, start):
    source = generator(11)
    x = gaussian(source, 1, CHANNELS, neighbours.shape[1])
    first = dense_direction(source, neighbours, *layers)
    second = [None if a is None else a + 0.5 * gaussian(source, *a.shape) for a in first]
    weights = he_weights(source, NETWORKS, CHANNELS, LAYERS, neighbours)
    t = overlaps(weights, x.expand(NETWORKS, -1, -1), neighbours, first, second)
    for h in range(start + 1, LAYERS + 1):
        ratio = ratio_of_means(t[h - 1], t[start - 1])
        assert_agrees(ratio, 1.0, f"E[T_{h}] / E[T_{start}], two directions in layers {layers}")


@GRIDS
def test_a_direction_in_the_layer_and_one_below_do_not_reduce(neighbours):
    source = generator(13)
    networks = 2 * NETWORKS
    x = gaussian(source, 1, CHANNELS, neighbours.shape[1]).expand(networks, -1, -1)
    weights = he_weights(source, networks, CHANNELS, 4, neighbours)
    every_weight = torch.ones(CHANNELS, CHANNELS * len(neighbours), dtype=torch.float64)
    below = tangents(weights, x, neighbours, [every_weight, None, None, None])
    within = tangents(weights, x, neighbours, [None, every_weight, None, None])
    cosine = []  # E[T_h(mu_1, mu_2)] over the root of the two E[T_h(mu, mu)]
    for (_, u), (_, v) in zip(below, within, strict=True):
        scale = (overlap(u, u).mean() * overlap(v, v).mean()).sqrt().clamp_min(1e-300)
        cosine.append(estimate(overlap(u, v) / scale))
    assert abs(cosine[1].mean) <= 4 * cosine[1].error  # E[T_2] = 0: odd in W^(2)
    assert_differs(cosine[2], 0.0, "normalised E[T_3], one direction in layer 1, one in 2; Lemma 1 says E[T_2] = 0")
    assert abs(cosine[3].mean - cosine[2].mean) <= 4 * math.hypot(cosine[3].error, cosine[2].error)  # both below: holds


@GRIDS
def test_expected_overlap_of_single_weights_is_the_value_in_their_own_layer(neighbours):
    # T_1 of two weights of layer 1 is a number fixed by the input, so here the theory has no noise at all.
    source = generator(12)
    x = gaussian(source, 1, CHANNELS, neighbours.shape[1]).abs()
    first, second = (one_parameter(neighbours, 1, channel=3, column=c) for c in (4, 9))
    weights = he_weights(source, 2 * NETWORKS, CHANNELS, 4, neighbours)
    t = overlaps(weights, x.expand(2 * NETWORKS, -1, -1), neighbours, first[:4], second[:4])
    assert t[0].std() < 1e-12
    assert_agrees(t[-1] / t[0, 0], 1.0, "E[T_4] / T_1, two weights of one kernel")


@GRIDS
def test_given_the_layer_the_overlap_keeps_that_layers_gates(neighbours):
    source = generator(14)
    x = gaussian(source, 1, CHANNELS, neighbours.shape[1])
    direction = dense_direction(source, neighbours, 1)
    lower = [w.expand(NETWORKS, -1, -1) for w in he_weights(source, 1, CHANNELS, 2, neighbours)]  # z^(2) is fixed
    weights = lower + he_weights(source, NETWORKS, CHANNELS, LAYERS - 2, neighbours)
    states = tangents(weights, x.expand(NETWORKS, -1, -1), neighbours, direction)
    z, dz = states[1]
    printed = overlap(dz, dz)[0].item()
    mended = 2 * overlap(gate(z) * dz, gate(z) * dz)[0].item()  # (1/q) T~_l
    for h in (3, LAYERS):
        measured = overlap(states[h - 1][1], states[h - 1][1])
        assert_agrees(measured / mended, 1.0, f"E[T_{h} | z^(2)] / ((1/q) T~_2), and (1/q) T~_2 = {mended:.4g}")
        assert_differs(measured / mended, printed / mended, f"E[T_{h} | z^(2)] / ((1/q) T~_2) against printed T_2")


def test_the_reduction_passes_a_dense_head_and_stops_at_a_pooled_one():
    source = generator(15)
    sites = LINE.shape[1]
    x = gaussian(source, 1, CHANNELS, sites)
    direction = dense_direction(source, LINE, 1)
    weights = he_weights(source, 4 * NETWORKS, CHANNELS, 3, LINE)
    z, dz = tangents(weights, x.expand(4 * NETWORKS, -1, -1), LINE, direction[:3])[-1]
    gated = gate(z) * dz
    outputs = 10
    dense = gaussian(source, 4 * NETWORKS, outputs, CHANNELS * sites, variance=2 / (CHANNELS * sites))
    pooled = gaussian(source, 4 * NETWORKS, outputs, CHANNELS, variance=2 / CHANNELS)
    through_dense = dense @ gated.flatten(1).unsqueeze(2)
    through_pool = pooled @ gated.mean(2, keepdim=True)
    below = overlap(dz, dz)
    assert_agrees(ratio_of_means(overlap(through_dense, through_dense), below), 1.0, "E[T_4] / E[T_3], dense head")
    loss = assert_differs(
        ratio_of_means(overlap(through_pool, through_pool), below), 1.0, "E[T_4] / E[T_3], pooled head"
    )
    # averaging over sites leaves between 1/sites (independent sites) and 1 (equal sites)
    assert 1 / sites < loss.mean < 1


@GRIDS
def test_circular_padding_visits_every_site_once_an_offset(neighbours):
    ones = torch.ones(1, 1, neighbours.shape[1], dtype=torch.float64)
    assert torch.equal(patches(ones, neighbours).sum(1), len(neighbours) * ones[:, 0])
    assert all(sorted(row.tolist()) == list(range(neighbours.shape[1])) for row in neighbours)
