"""Persistent energy: how far a step moves the readout, without batch noise and relative to the readout's size.

The step of a batch is a part that all batches have in common, plus noise. Over a run the noise averages out, and the
common part adds up. The common part therefore bounds the learning rate. Two halves of the batches give two steps d1 and
d2, which are measured on one further batch:

P = <(dz . d1) (dz . d2)> / <z^2>        (at rate 1; dz = d z / d theta of the readout z, means over all coordinates)

The two halves have independent noise, so the mean of their product contains none of it. The square of either step
(Eq. 4) contains all of it. P is relative to <z^2>, because a smaller initial readout does not allow a larger rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean
from typing import Any

from torch import Tensor, nn
from torch.optim import RAdam

from depthlr import check
from depthlr.energy.batches import SeedBatches, read_three_or_more, split_batch
from depthlr.energy.gradient import check_moves, largest_entry_if_finite, loss_gradients, seeded_run, unwrap_measurable
from depthlr.energy.jvp import jvp, value_and_change
from depthlr.energy.progress import count_batch, labelled, measuring
from depthlr.energy.step import has_stepped, optimizers_of, step_direction
from depthlr.energy.tensors import add_gradients, mean_product, widen_half
from depthlr.errors import DepthlrError
from depthlr.trace.interface import LossFn, readouts_of

SEEDS = 8  # default number of initializations, if a function builds the model
LEAST_SHARE = 1 / 8  # of the energy of one half: below this share the noise hides the common part
DRAW_SCATTER = 0.1  # standard deviation of log10(rate) over initializations: the median over TransferBench's models
NOISE_BIAS = -0.5 * math.log10(LEAST_SHARE)  # decades by which the rate may be too low if the energy is noisy
LARGE_ERROR = 0.15  # standard error of log10(rate), about the error of transferred rates
CALIBRATED_SIZES = (0.022, 6.4)  # range of the readout's mean square over TransferBench's models, initialized by init_
Gradients = dict[str, Tensor]


@dataclass(frozen=True)
class PersistentEnergy:
    """The persistent energy of one initialization."""

    energy: float  # of the readout at rate 1, relative to its mean square; noise may make it negative
    total: float  # the mean energy of the two steps, noise included
    mean_square: float  # of the readout
    loss: float
    batches: int  # used for gradients

    @property
    def noisy(self) -> bool:
        """Is the common part of the halves too small to be measured?"""
        return self.energy < LEAST_SHARE * self.total

    @property
    def rate(self) -> float:
        """The rate at which the energy is 1. Energy is quadratic in the rate."""
        energy = max(self.energy, LEAST_SHARE * self.total)
        if not 0 < energy < float("inf"):
            raise DepthlrError(f"the persistent energy is {energy:.3g}, no rate can be read from it: check the init.")
        return float(energy**-0.5)


def persistent_energies(
    models: Mapping[str, Iterator[nn.Module]],
    batches: SeedBatches,
    loss_fn: LossFn | None,
    optimizer: Any,
    *,
    seed: int,
) -> list[tuple[PersistentEnergy, ...]]:
    """Measure the initializations of several models. The batches of an initialization are read once, for all models.

    Args:
        models: The initializations of each model, by name.
        batches: The batches of each initialization.
        loss_fn: As in `update_energy`.
        optimizer: A factory or a name.
        seed: Seeds dropout.
    """
    found: dict[str, list[PersistentEnergy]] = {name: [] for name in models}
    number = 0
    for own in batches.per_seed:
        # `enumerate` would keep these batches while the next ones are read; each `del` below frees memory, too.
        number += 1  # noqa: SIM113
        for name, drawn in models.items():
            for model in islice(drawn, 1):  # one model, or none; a loop variable can be deleted
                with labelled(name), labelled(f"initialization {number}"):
                    found[name].append(persistent_energy(model, own, loss_fn, optimizer, seed=seed))
                del model
        del own
    return [tuple(energies) for energies in found.values()]


def persistent_energy(
    model: nn.Module,
    batches: Any,
    loss_fn: LossFn | None = None,
    optimizer: Any = "sgd",
    *,
    seed: int = 0,
    limit: int | None = None,
) -> PersistentEnergy:
    """Measure the persistent energy of this initialization, for the optimizer's real next step.

    The cost is about one training step per batch. Model, gradients, buffers and random states are not changed.

    Args:
        model: Initialized as it will be trained.
        batches: Three or more of (inputs, target). The step is measured on the last batch. The other batches form two
            halves, which give the gradients.
        loss_fn: As in `update_energy`.
        optimizer: As in `update_energy`. State from earlier steps enters both halves and counts as a common part.
        seed: Seeds dropout, with a different mask for each batch, and what a loader draws.
        limit: The number of batches. If None: all of a list, seventeen of a loader.
    """
    model, parameters = unwrap_measurable(model)
    _check_first_step(optimizer, model)
    seed = check.seed("The seed", seed)
    given = read_three_or_more(batches, limit, seed)
    with measuring(len(given)):
        return _measure(model, parameters, given, loss_fn, optimizer, seed)


def _measure(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    batches: Sequence[Any],
    loss_fn: LossFn | None,
    optimizer: Any,
    seed: int,
) -> PersistentEnergy:
    *training, probe = batches
    halves: tuple[Gradients, Gradients] = ({}, {})  # sums
    losses, largest = [], 0.0
    readout: int | None = None
    for index, batch in enumerate(training):
        # Dropout is noise too, so every batch has its own mask.
        found = loss_gradients(model, parameters, batch, loss_fn, seed + index, readout=readout)
        readout = found.readout
        largest = max(largest, largest_entry_if_finite(found.loss, found.gradients))
        losses.append(float(found.loss))
        _add(halves[index % 2], found.gradients)
        count_batch()
    check_moves(largest)
    changes = []
    for index, half in enumerate(halves):
        number = len(training[index::2])
        mean = {name: total / number for name, total in half.items()}
        direction = step_direction(optimizer, model, mean)
        inputs, _ = split_batch(probe, next(iter(parameters.values())).device)
        with seeded_run(model, seed + len(training)), jvp(model, parameters, direction, inputs) as output:
            value, change = value_and_change(readouts_of(output)[readout or 0])
            changes.append(change)
    count_batch()
    size, product = float(mean_product(value, value)), float(mean_product(*changes))
    own = [float(mean_product(change, change)) for change in changes]
    if size == 0:
        raise DepthlrError(
            "the readout is zero on this batch (a head that starts at zero?): the first step moves the head alone and "
            "says nothing of the rest; give the head its usual weights to measure, by init_ or your own."
        )
    return PersistentEnergy(product / size, fmean(own) / size, size, fmean(losses), len(training))


def _check_first_step(optimizer: Any, model: nn.Module) -> None:
    """Raise if the first step of the optimizer differs from all later ones."""
    made = optimizers_of(optimizer, model)
    if any(isinstance(one, RAdam) and not has_stepped(one) for one in made):
        raise DepthlrError("RAdam's first steps are plain SGD's, unlike those it takes later: measure Adam instead.")


def _add(total: Gradients, gradients: Mapping[str, Tensor]) -> None:
    """Add gradients to a running sum: all gradients of a large model would not fit in memory."""
    for name, gradient in gradients.items():
        wide = widen_half(gradient)
        total[name] = add_gradients(total[name], wide) if name in total else wide


@dataclass(frozen=True)
class DrawnRate:
    """The mean of log10(rate) over initializations and its standard error, which is None for one initialization."""

    decades: float
    standard_error: float | None
    noisy: bool  # are half of the initializations or more noisy?

    @property
    def rate(self) -> float:
        """The geometric mean over draws."""
        return float(10**self.decades)


def rate_over_draws(found: Sequence[PersistentEnergy]) -> DrawnRate:
    """The geometric mean of the rates of several initializations, and its standard error.

    Energies of deep plain stacks vary by decades, so an arithmetic mean would be dominated by a few initializations.

    Args:
        found: One energy per initialization.
    """
    decades = [math.log10(one.rate) for one in found]
    mean, number = fmean(decades), len(decades)
    noisy = sum(one.noisy for one in found) / number  # the share of the initializations
    # A few initializations may agree by chance. So one more is counted, at the usual distance from the mean. Noise
    # makes the rates of all initializations too low, so its error does not shrink with their number.
    variance = (DRAW_SCATTER**2 + sum((one - mean) ** 2 for one in decades)) / number
    error = math.hypot(math.sqrt(variance / number), noisy * NOISE_BIAS)
    return DrawnRate(mean, error if number > 1 else None, noisy=noisy >= 0.5)


def readout_size_note(found: Sequence[PersistentEnergy]) -> str | None:
    """A warning if the readout starts outside the sizes at which measured rates were compared with tuned rates."""
    size = math.exp(fmean(math.log(one.mean_square) for one in found))
    least, most = CALIBRATED_SIZES
    if least <= size <= most:
        return None
    cause = "signals vanish, or the head starts near zero" if size < least else "signals grow"
    return (
        f"the readout starts with a mean square of {size:.2g} ({cause}), and measured rates were compared with tuned "
        f"ones at {least:g} to {most:g} alone: initialize by init_, or do not trust this one."
    )
