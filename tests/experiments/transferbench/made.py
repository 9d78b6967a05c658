"""Oracles and measures made up so that the answers are known."""

import math

from depthlr.energy.persistent import PersistentEnergy
from experiments.transferbench.known import Curve, Draw, Measured, Oracle, Suggestion
from experiments.transferbench.measuring import Change, Step
from experiments.transferbench.scores import Known

GRID = tuple(round(-4 + 0.0625 * place, 4) for place in range(81))
SIZES = (4, 8, 16)


def bowl(best: float) -> Curve:
    """Loss 2 at the best rate, rising by a tenth of the squared distance."""
    return Curve(GRID, tuple(2 + 0.1 * (x - best) ** 2 for x in GRID), (1e-5, 1e2))


def step(energy: float) -> Step:
    change = Change(energy, 1.0, energy / 2)
    return Step((change, change), change, 2.3, -1.0, 2.0, 2.0, 0.5, 0.25)


def measured(size: int, energy: float, shares: tuple[float, ...] = (1.0, 1.0, 1.0), momentum: float = 0.0) -> Measured:
    """All energies are the same, but the persistent ones of the draws, which are these shares of it."""
    persistent = tuple(Draw(PersistentEnergy(share * energy, share * energy, 1.0, 2.3, 16), 0.25) for share in shares)
    suggestions = {name: (Suggestion(0.1, 3.0),) * 3 for name in ("pytorch-lr-finder", "lightning")}
    optimizer = "momentum" if momentum else "sgd"
    return Measured(
        size, size, size, 0, 64, optimizer, momentum, "constant", (step(energy),) * 5, persistent, suggestions
    )


def known(name: str = "made", slope: float = -1.0, jitter: float = 0.0) -> Known:
    """Best rates ~ size^slope; the energy is that which energy^(-1/2) turns into the best rate."""
    best = {size: GRID[round((slope * math.log10(size) + 4) / 0.0625)] for size in SIZES}
    curves = {size: {seed: bowl(best[size] + jitter * (seed - 1)) for seed in range(3)} for size in SIZES}
    return Known(name, Oracle(curves), {size: measured(size, 10 ** (-2 * best[size])) for size in SIZES})
