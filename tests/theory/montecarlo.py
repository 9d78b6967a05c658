"""Monte Carlo for the theory tests: estimates with standard errors, and many small random networks in one batch.

A batch of S networks is a list of weights (S, out, fan_in); activations are (S, channels, sites). A fully connected
layer is the case of one site and one offset. `pytest tests/theory -s` prints every estimate beside its theory.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

STANDARD_ERRORS = 4.0
POWER = 0.10


class Estimate(NamedTuple):
    mean: float
    error: float  # one standard error of the mean


def estimate(samples: Tensor) -> Estimate:
    """Mean over independent samples, and its standard error."""
    return Estimate(samples.mean().item(), samples.std().item() / math.sqrt(len(samples)))


def estimate_given(samples: Tensor, controls: Tensor) -> Estimate:
    """Mean of the samples with the part taken out that is linear in controls (samples, k) of known mean zero."""
    design = torch.cat([torch.ones(len(samples), 1, dtype=samples.dtype), controls], 1)
    fitted = torch.linalg.lstsq(design, samples[:, None]).solution
    residual = samples - (design @ fitted).squeeze(1)
    return Estimate(fitted[0].item(), residual.std().item() / math.sqrt(len(samples) - design.shape[1]))


def ratio_of_means(numerator: Tensor, denominator: Tensor) -> Estimate:
    """mean(numerator) / mean(denominator) for paired samples, by the delta method."""
    ratio = (numerator.mean() / denominator.mean()).item()
    residual = (numerator - ratio * denominator) / denominator.mean()
    return Estimate(ratio, residual.std().item() / math.sqrt(len(residual)))


def wide_limit(narrow: Estimate, wide: Estimate) -> Estimate:
    """Richardson: the limit of a quantity with a 1/width correction, from a width and its double."""
    return Estimate(2 * wide.mean - narrow.mean, math.hypot(2 * wide.error, narrow.error))


def agrees(measured: Estimate, claim: float) -> bool:
    return abs(measured.mean - claim) <= STANDARD_ERRORS * measured.error


def assert_agrees(measured: Tensor | Estimate, theory: float, label: str = "") -> Estimate:
    """The theory lies within 4 standard errors, and a theory 10 % larger or smaller would not."""
    measured = estimate(measured) if isinstance(measured, Tensor) else measured
    line = f"{label}: measured {measured.mean:.5g} +- {measured.error:.2g}, theory {theory:.5g}"
    print(line)
    assert agrees(measured, theory), line
    for factor in (1 - POWER, 1 + POWER):
        assert not agrees(measured, factor * theory), f"no power against a factor {factor:.1f}: {line}"
    return measured


def assert_differs(measured: Tensor | Estimate, claim: float, label: str = "") -> Estimate:
    """The claim lies more than 4 standard errors away."""
    measured = estimate(measured) if isinstance(measured, Tensor) else measured
    line = f"{label}: measured {measured.mean:.5g} +- {measured.error:.2g}, claimed {claim:.5g}"
    print(line)
    assert not agrees(measured, claim), line
    return measured


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gaussian(source: torch.Generator, *shape: int, variance: float = 1.0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=source) * math.sqrt(variance)


def torus_neighbours(shape: Sequence[int], offsets: Sequence[Sequence[int]]) -> Tensor:
    """(offsets, sites): the flat site that each offset reaches from each site, modulo the grid."""
    sites = list(itertools.product(*map(range, shape)))
    flat = {site: index for index, site in enumerate(sites)}
    return torch.tensor(
        [
            [flat[tuple((p + d) % n for p, d, n in zip(site, offset, shape, strict=True))] for site in sites]
            for offset in offsets
        ]
    )


LINE = torus_neighbours((6,), [(-1,), (0,), (1,)])  # 1-D, kernel 3
SQUARE = torus_neighbours((3, 4), list(itertools.product((-1, 0, 1), repeat=2)))  # 2-D, kernel 3 x 3
POINT = torus_neighbours((1,), [(0,)])  # a fully connected layer


def patches(x: Tensor, neighbours: Tensor) -> Tensor:
    """(S, channels, sites) -> (S, channels * offsets, sites): what a kernel sees at each site."""
    return x[:, :, neighbours].flatten(1, 2)


def relu(z: Tensor) -> Tensor:
    return z.clamp_min(0)


def gate(z: Tensor) -> Tensor:
    """sigma'(z) of ReLU."""
    return (z > 0).to(z.dtype)


def overlap(u: Tensor, v: Tensor) -> Tensor:
    """(S,): T(u, v), the mean product over units."""
    return (u * v).flatten(1).mean(1)


def forward(weights: Sequence[Tensor], x: Tensor, neighbours: Tensor) -> list[Tensor]:
    """z^(1), ..., z^(L) of z^(l) = W^(l) sigma(z^(l-1)), with z^(0) = x."""
    states, z = [], x
    for weight in weights:
        z = weight @ patches(relu(z), neighbours)
        states.append(z)
    return states


def tangents(
    weights: Sequence[Tensor], x: Tensor, neighbours: Tensor, direction: Sequence[Tensor | None]
) -> list[tuple[Tensor, Tensor]]:
    """(z^(l), the derivative of z^(l) along a direction in weight space) for every layer, by hand."""
    states = []
    z, dz = x, torch.zeros_like(x)
    for weight, step in zip(weights, direction, strict=True):
        carried = weight @ patches(gate(z) * dz, neighbours)
        own = 0.0 if step is None else step @ patches(relu(z), neighbours)
        z, dz = weight @ patches(relu(z), neighbours), carried + own
        states.append((z, dz))
    return states


def he_weights(source: torch.Generator, networks: int, channels: int, layers: int, neighbours: Tensor) -> list[Tensor]:
    """Fan-in initialization for ReLU: variance 1 / (q fan_in) with q = 1/2."""
    fan_in = channels * len(neighbours)
    return [gaussian(source, networks, channels, fan_in, variance=2 / fan_in) for _ in range(layers)]
