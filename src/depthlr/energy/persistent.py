"""Persistent energy: how far what batches agree on moves the readout, in units of the readout itself.

Over a run the noise of single batches averages out, while what batches agree on adds up, so that is what bounds the
rate. Two steps d1 and d2 are learnt from two halves of the batches and seen on a batch that neither has learnt from:

P = <(dz . d1) (dz . d2)> / <z^2>        (at rate 1; dz = d z / d theta of the readout z, means over all coordinates)

The noise of one half is independent of the other's, so the mean of their product has none of it, where the square of
either (Eq. 4) has all. Relative to <z^2>, since a readout that starts ten times too small allows no larger rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import RAdam

from depthlr.energy.batch import LossFn, split
from depthlr.energy.draws import check_draws, draws
from depthlr.energy.gradient import (
    backward,
    check_measurable,
    check_moves,
    largest_entry,
    same_conditions,
    summed,
)
from depthlr.energy.progress import measured_batch, measuring
from depthlr.energy.shares import Shares, checked_batches, shares
from depthlr.energy.step import has_stepped, optimizers_of, step_direction
from depthlr.energy.tangent import mean_product, moved, value_and_change
from depthlr.errors import DepthlrError
from depthlr.law.domain import MOST_SEED, whole
from depthlr.trace.record import readouts_of
from depthlr.trace.run import check_runnable, unwrap

SEEDS = 8  # initialisations, where a function builds the model
LEAST_SHARE = 1 / 8  # of a half's own energy: if batches agree on less, noise hides on how much
Gradients = dict[str, Tensor]


@dataclass(frozen=True)
class PersistentEnergy:
    """Of one initialisation."""

    energy: float  # of the readout, at rate 1, relative to its mean square; noise may take it below 0
    total: float  # the same of either step by itself, noise and all
    mean_square: float  # of the readout
    loss: float
    batches: int  # learnt from

    @property
    def noisy(self) -> bool:
        """Do the halves agree on so little that the energy is a guess?"""
        return self.energy < LEAST_SHARE * self.total

    @property
    def rate(self) -> float:
        """The rate at which it is 1: energy is quadratic in the rate."""
        energy = max(self.energy, LEAST_SHARE * self.total)
        if not 0 < energy < float("inf"):
            raise DepthlrError(
                f"the persistent energy is {energy:.3g}, so no rate can be read from it: check the init."
            )
        return float(energy**-0.5)


def persistent_energy(
    model: nn.Module,
    batches: Any,
    loss_fn: LossFn | None = None,
    optimizer: Any = "sgd",
    *,
    seed: int = 0,
    limit: int | None = None,
) -> PersistentEnergy:
    """Persistent energy of this very initialisation, for the optimizer's real next step, in about a step a batch.

    `batches` are three or more of (inputs, target): the last is seen, the others are learnt from in two halves. Of
    a list all are used, of a loader seventeen, or the first `limit`. Each has dropout of its own, drawn by `seed`; the
    rest is as in `update_energy`. An optimizer that has taken steps takes what it keeps of them into both halves, where
    it counts as agreement. Model, gradients, buffers and random states are left as they were.
    """
    model = unwrap(model)
    check_runnable(model)
    parameters = dict(model.named_parameters())
    check_measurable(model, parameters)
    _check_typical(optimizer, model)
    seed = whole(seed, "The seed", most=MOST_SEED)
    given = checked_batches(batches, limit, seed)
    with measuring(len(given)):
        return _measured(model, parameters, given, loss_fn, optimizer, seed)


def _measured(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    batches: Sequence[Any],
    loss_fn: LossFn | None,
    optimizer: Any,
    seed: int,
) -> PersistentEnergy:
    *learnt, seen = batches
    halves: tuple[Gradients, Gradients] = ({}, {})  # sums
    losses, largest = [], 0.0
    readout: int | None = None
    for place, batch in enumerate(learnt):
        # Dropout is noise too: no two batches share a mask.
        found = backward(model, parameters, batch, loss_fn, seed + place, readout)
        readout = found.readout
        largest = max(largest, largest_entry(found.loss, found.gradients))
        losses.append(float(found.loss))
        _add(halves[place % 2], found.gradients)
        measured_batch()
    check_moves(largest)
    changes = []
    for half, several in zip(halves, (len(learnt) - len(learnt) // 2, len(learnt) // 2), strict=True):
        mean = {name: total / several for name, total in half.items()}
        direction = step_direction(optimizer, model, mean)
        inputs, _ = split(seen, next(iter(parameters.values())).device)
        with same_conditions(model, seed + len(learnt)), moved(model, parameters, direction, inputs) as output:
            value, change = value_and_change(readouts_of(output)[readout or 0])
            changes.append(change)
    measured_batch()
    size, product, *own = (
        float(mean_product(one, other)) for one, other in ((value, value), changes, *zip(changes, changes, strict=True))
    )
    if not math.isfinite(size):
        raise DepthlrError(
            f"the readout's mean square is {size} on the last batch, on which the step is seen: check the data and the "
            "init."
        )
    if size == 0:
        raise DepthlrError(
            "the readout is zero on this batch (a head that starts at zero?): the first step moves the head alone and "
            "says nothing of the rest; give the head its usual weights to measure, by init_ or your own."
        )
    return PersistentEnergy(product / size, fmean(own) / size, size, fmean(losses), len(learnt))


def _check_typical(optimizer: Any, model: nn.Module) -> None:
    """Refuse a first step that is unlike all later ones."""
    made = optimizers_of(optimizer, model)
    if any(isinstance(one, RAdam) and not has_stepped(one) for one in made):
        raise DepthlrError("RAdam's first steps are plain SGD's, unlike those it takes later: measure Adam instead.")


def _add(total: Gradients, gradients: Mapping[str, Tensor]) -> None:
    """Keep the sum alone: of a large model many gradients would not fit."""
    for name, gradient in gradients.items():
        wide = gradient.float() if gradient.dtype in (torch.float16, torch.bfloat16) else gradient  # or it overflows
        total[name] = summed(total[name], wide) if name in total else wide


def persistent_energy_over_seeds(
    build: Callable[[], nn.Module],
    seeds: Sequence[int],
    batches: Any,
    loss_fn: LossFn | None = None,
    optimizer: Any = "sgd",
    *,
    seed: int = 0,
    limit: int | None = None,
) -> tuple[PersistentEnergy, ...]:
    """`persistent_energy` of `build()` under each seed; `optimizer` is a factory or a name: every model is new.

    Seeds have batches of their own where there are seventeen for each, or `limit`, and a loader's are read as each is
    measured; else they share what `persistent_energy` would use.
    """
    check_draws(seeds, optimizer)
    seed = whole(seed, "The seed", most=MOST_SEED)
    given = shares(batches, len(seeds), limit, seed)
    with measuring(len(seeds) * given.size):
        (found,) = persistent_energies({"": draws(build, seeds)}, given, loss_fn, optimizer, seed=seed)
    return found


def persistent_energies(
    models: Mapping[str, Iterator[nn.Module]],
    batches: Shares,
    loss_fn: LossFn | None,
    optimizer: Any,
    *,
    seed: int,
) -> list[tuple[PersistentEnergy, ...]]:
    """Of several models' draws by name, as long as each has any, on the batches of each draw, read once for all."""

    places = count(1)  # enumerate() would keep a share while the next one is read

    def of_next(own: list[Any]) -> list[list[PersistentEnergy]]:
        place = next(places)
        return [of_one(name, place, own) for name in models]

    def of_one(name: str, place: int, own: list[Any]) -> list[PersistentEnergy]:
        found = []
        for model in islice(models[name], 1):
            with measuring(0, name), measuring(0, f"initialization {place}"):
                found.append(persistent_energy(model, own, loss_fn, optimizer, seed=seed))
        return found

    return [tuple(chain(*found)) for found in zip(*map(of_next, batches.each), strict=True)]
