"""Persistent energies of several initializations of one model, which rules average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from depthlr import check
from depthlr.energy import PersistentEnergy
from depthlr.energy.batches import batches_for_seeds
from depthlr.energy.initializations import draw_models
from depthlr.energy.persistent import persistent_energies
from depthlr.energy.progress import measuring
from depthlr.energy.step import check_fits_any_model


def persistent_energy_over_seeds(
    build: Callable[[], nn.Module],
    seeds: Sequence[int],
    batches: Any,
    loss_fn: Any = None,
    optimizer: Any = "sgd",
    *,
    seed: int = 0,
    limit: int | None = None,
) -> tuple[PersistentEnergy, ...]:
    """Measure `persistent_energy` of `build()` for each seed, on batches of its own if there are enough."""
    check_fits_any_model(optimizer)
    seed = check.seed("The seed", seed)
    given = batches_for_seeds(batches, len(seeds), limit, seed)
    with measuring(len(seeds) * given.size):
        (found,) = persistent_energies({"": draw_models(build, seeds)}, given, loss_fn, optimizer, seed=seed)
    return found
