"""Overlaps through residual blocks z <- z + W sigma(z), Var W = c / (K n) (App. C.1).

Exact given the layer below: E[T_l] = T_(l-1) + (c/K) T~_(l-1). On average over wide networks T grows by 1 + c q / K a
block, hence by at most e^(c q) in all, and a plain layer with fan-in variance changes nothing.
"""

import math

import pytest
import torch
from tests.theory.montecarlo import assert_agrees, assert_differs, gate, gaussian, generator, overlap, relu
from tests.theory.overlap import residual_growth, residual_growth_bound
from torch import Tensor

Q = 0.5  # ReLU


@pytest.mark.parametrize(("c", "blocks"), [(2.0, 1), (2.0, 4), (0.7, 3)])
def test_one_block_adds_the_gated_overlap_exactly(c, blocks):
    width, draws = 16, 40_000
    source = generator(41)
    z, u = gaussian(source, width), gaussian(source, width)
    v = u + 0.5 * gaussian(source, width)
    weight = gaussian(source, draws, width, width, variance=c / (blocks * width))
    above_u = u + weight @ (gate(z) * u)
    above_v = v + weight @ (gate(z) * v)
    below = (u * v).mean().item()
    gated = (gate(z) * u * v).mean().item()  # T~: the gates of the layer below, not their mean q
    measured = overlap(above_u, above_v)
    assert_agrees(measured, below + c / blocks * gated, f"E[T_l | below], c = {c}, K = {blocks}")
    # the gain alone: the terms linear in W have mean zero and only make noise, so they are taken out
    gain = measured - below - ((above_u - u) * v + (above_v - v) * u).mean(1)
    assert_agrees(gain, c / blocks * gated, "the gain of one block")
    assert_differs(gain, c / blocks * Q * below, "the gain of one block against q T instead of T~")


def carry(kinds: str, c: float, width: int, networks: int, seed: int) -> Tensor:
    """(levels, networks): T after each unit of a backbone written as p (plain) and r (residual), T = 1 at the start."""
    source = generator(seed)
    blocks = kinds.count("r")
    z, dz = gaussian(source, networks, width, 1), gaussian(source, networks, width, 1)
    dz = dz / overlap(dz, dz).sqrt()[:, None, None]
    levels = []
    for kind in kinds:
        variance = 1 / (Q * width) if kind == "p" else c / (blocks * width)
        weight = gaussian(source, networks, width, width, variance=variance)
        skip = 0.0 if kind == "p" else 1.0
        z, dz = skip * z + weight @ relu(z), skip * dz + weight @ (gate(z) * dz)
        levels.append(overlap(dz, dz))
    return torch.stack(levels)


@pytest.mark.parametrize(("c", "blocks"), [(2.0, 4), (2.0, 12), (1.0, 8)])
def test_mean_overlap_grows_by_a_constant_factor_a_block(c, blocks):
    t = carry("r" * blocks, c, width=48, networks=1500, seed=42)
    for level in (1, blocks // 2, blocks):
        theory = (1 + c * Q / blocks) ** level
        assert residual_growth(c, Q, blocks, level) == pytest.approx(theory)
        mean, error = assert_agrees(t[level - 1], theory, f"E[T_{level}] / T_0, c = {c}, K = {blocks}")
        assert mean <= residual_growth_bound(c, Q) + 4 * error


@pytest.mark.parametrize("c", [0.5, 1.0, 2.0, 4.0])
def test_growth_is_bounded_whatever_the_number_of_blocks(c):
    growths = [residual_growth(c, Q, blocks, blocks) for blocks in (1, 2, 4, 16, 256, 10**6)]
    assert growths == sorted(growths)
    assert growths[-1] <= residual_growth_bound(c, Q) == pytest.approx(math.exp(c * Q))
    assert growths[-1] == pytest.approx(residual_growth_bound(c, Q), rel=1e-5)


@pytest.mark.parametrize("kinds", ["pprrrrp", "rrpprrp", "prrrr"])
def test_plain_units_leave_a_mixed_backbone_its_residual_growth(kinds):
    c, blocks = 2.0, kinds.count("r")
    t = carry(kinds, c, width=48, networks=4000, seed=43)
    assert_agrees(t[-1], (1 + c * Q / blocks) ** blocks, f"E[T_L] / T_0 along {kinds}")
