"""Assumption 1 on Transformers: rho_(l:h) = |Phi v|^2 / |v|^2 for random tangents v at unit h, measured at unit l.

Paper: 0 < c <= rho <= C, whatever the depth. Measured here over 2 to 24 blocks (4 to 48 units), 8 tokens:
- post-LN: mean rho stays within [0.05, 2]. Where tokens have become alike (h deep) it sinks towards 1 / tokens.
- pre-LN: mean rho_(l:0) grows as the stream's own mean square does, linearly with depth: no constant bounds it.
  What is bounded is the relative rho, (|Phi v| / |v|)^2 / (|z_l| / |z_h|)^2, within [0.6, 1.4].
"""

import math
from collections.abc import Callable

import pytest
import torch
from tests.theory.montecarlo import assert_differs, gaussian, generator, ratio_of_means
from torch import Tensor
from torch.nn import functional as F

NETWORKS, TOKENS, WIDTH, HEADS, BLOCKS = 120, 8, 48, 4, 24
Unit = Callable[[Tensor], Tensor]


def attention(source: torch.Generator) -> Unit:
    query, key, value, out = (gaussian(source, NETWORKS, WIDTH, WIDTH, variance=1 / WIDTH) for _ in range(4))

    def split(x: Tensor) -> Tensor:  # (networks, heads, tokens, width / heads)
        return x.unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2)

    def branch(x: Tensor) -> Tensor:
        scores = split(x @ query) @ split(x @ key).transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        mixed = torch.softmax(scores, dim=3) @ split(x @ value)
        return mixed.transpose(1, 2).flatten(2) @ out

    return branch


def feedforward(source: torch.Generator) -> Unit:
    hidden = 2 * WIDTH
    up = gaussian(source, NETWORKS, WIDTH, hidden, variance=1 / WIDTH)
    down = gaussian(source, NETWORKS, hidden, WIDTH, variance=2 / hidden)  # 1 / (q fan_in) after ReLU
    return lambda x: torch.relu(x @ up) @ down


def normalised(x: Tensor) -> Tensor:
    return F.layer_norm(x, (WIDTH,))


def post_norm(branch: Unit) -> Unit:
    return lambda z: normalised(z + branch(z))


def pre_norm(branch: Unit) -> Unit:
    return lambda z: z + branch(normalised(z))


def propagate(wrap: Callable[[Unit], Unit], start: int, seed: int) -> tuple[Tensor, Tensor]:
    """(units, networks): |Phi v|^2 / |v|^2 and |z_l|^2 / |z_h|^2 for every unit l after h = start."""
    source = generator(seed)
    z = normalised(gaussian(source, NETWORKS, TOKENS, WIDTH))
    tangent, rho, stream = None, [], []
    for level in range(2 * BLOCKS):
        if level == start:
            tangent, entry = gaussian(source, NETWORKS, TOKENS, WIDTH), z
            size = tangent.square().sum((1, 2))
        unit = wrap((attention if level % 2 == 0 else feedforward)(source))
        if tangent is None:
            z = unit(z)
            continue
        z, tangent = torch.func.jvp(unit, (z,), (tangent,))
        rho.append(tangent.square().sum((1, 2)) / size)
        stream.append(z.square().sum((1, 2)) / entry.square().sum((1, 2)))
    return torch.stack(rho), torch.stack(stream)


@pytest.fixture(scope="module")
def post() -> dict[int, Tensor]:
    return {start: propagate(post_norm, start, seed=61)[0] for start in (0, 16)}


@pytest.fixture(scope="module")
def pre() -> dict[int, tuple[Tensor, Tensor]]:
    return {start: propagate(pre_norm, start, seed=62) for start in (0, 16)}


def show(label: str, values: Tensor) -> None:
    picked = [units for units in (1, 4, 8, 16, 24, 32, 48) if units <= len(values)]
    line = ", ".join(f"{n}: {values[n - 1].mean():.2f} (median {values[n - 1].median():.2f})" for n in picked)
    print(f"{label}, units after h -> mean: {line}")


@pytest.mark.parametrize("start", [0, 16])
def test_post_norm_tangents_stay_between_two_constants(post, start):
    show(f"post-LN rho, h = {start}", post[start])
    for level in post[start]:
        assert 0.05 < level.mean() < 2


def test_post_norm_tangents_shrink_once_tokens_are_alike(post):
    # the part of a tangent that differs between tokens dies out; the part they share, 1 / tokens of it, lives on
    assert_differs(post[16][-1], 1.0, "post-LN rho at the last unit, h = 16")
    assert 0.5 / TOKENS < post[16][-1].mean() < 4 / TOKENS


def test_post_norm_overlaps_fluctuate_more_the_deeper_the_stack(post):
    # Eq. (tr-overlap-var) wants a small variance; at fixed width it grows with depth
    relative = post[0].std(1) / post[0].mean(1)
    print(f"post-LN rho, sd / mean at width {WIDTH}: {relative[3]:.2f} at 4 units, {relative[-1]:.2f} at 48")
    assert relative[3] < 0.5
    assert relative[-1] > 1


@pytest.mark.parametrize("start", [0, 16])
def test_pre_norm_tangents_stay_bounded_only_relative_to_the_stream(pre, start):
    rho, stream = pre[start]
    show(f"pre-LN rho, h = {start}", rho)
    relative = rho.mean(1) / stream.mean(1)
    print(f"relative rho: {relative.min():.2f} to {relative.max():.2f}")
    assert relative.min() > 0.6
    assert relative.max() < 1.4


def test_pre_norm_tangents_grow_linearly_with_depth(pre):
    rho, _ = pre[0]
    for n in (12, 24):
        measured = ratio_of_means(rho[2 * n - 1], rho[n - 1])
        assert_differs(measured, 1.0, f"pre-LN rho after {2 * n} units over that after {n}")
        assert 1.4 < measured.mean < 2.6
