"""Update energy: the effect of one optimizer step at rate 1 on every unit and on the readout.

A backward pass gives the step, and a forward-mode pass gives its effect.

Delta z_l = sum_a (d z_l / d theta_a) Delta theta_a          (Eq. 3, linearised; Delta theta = the optimizer's step)
S_l       = mean over coordinates and examples of (Delta z_l)^2        (Eq. 4, at rate 1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log10
from statistics import fmean, median, stdev
from typing import Any

import torch
from torch import Tensor, nn

from depthlr import check
from depthlr.energy.batches import check_batch, read_batches, split_batch
from depthlr.energy.gradient import (
    LossGradients,
    check_moves,
    largest_entry_if_finite,
    loss_gradients,
    seeded_run,
    unwrap_measurable,
)
from depthlr.energy.initializations import draw_models
from depthlr.energy.jvp import jvp, value_and_change
from depthlr.energy.progress import count_batch, labelled, measuring
from depthlr.energy.step import check_fits_any_model, step_direction
from depthlr.energy.tensors import mean_product
from depthlr.errors import DepthlrError
from depthlr.formatting import html_table
from depthlr.law.curve import AGGREGATORS
from depthlr.trace.depth import Depth, Units, check_units, depth_of
from depthlr.trace.interface import Arguments, LossFn, readouts_of
from depthlr.trace.recorder import Watch
from depthlr.trace.units import Unit

ENERGY_BATCHES = 4  # default number of batches from a loader


@dataclass(frozen=True)
class UnitEnergy:
    """Energy of one unit: mean square change of its pre-activation in one step at rate 1."""

    unit: Unit
    energy: float  # S_l(1), Eq. 5; quadratic in the rate
    mean_square: float  # of the pre-activation itself

    @property
    def relative(self) -> float:
        """Energy divided by the mean square of the pre-activation."""
        return self.energy / self.mean_square if self.mean_square > 0 else float("inf")


@dataclass(frozen=True)
class Energy:
    """Energies of all units, and of the network's output."""

    units: tuple[UnitEnergy, ...]
    readout: float
    readout_mean_square: float
    loss: float

    @property
    def hidden(self) -> tuple[UnitEnergy, ...]:
        """The units over which energies are averaged: all except the head, whose output is the readout."""
        return tuple(u for u in self.units if u.unit.role != "head") or self.units

    @property
    def mean(self) -> float:
        """Mean energy, S-bar(1) (Eq. 6)."""
        return self.aggregate()

    def aggregate(self, how: str = "arithmetic", *, relative: bool = False) -> float:
        """Energy of the typical unit: arithmetic (the paper's), geometric or harmonic mean."""
        check.one_of("The aggregate", how, AGGREGATORS)
        if relative:
            return AGGREGATORS[how](u.relative for u in self.hidden)
        return AGGREGATORS[how](u.energy for u in self.hidden)

    @property
    def rate(self) -> float:
        """The AM-muP rate: mean energy 1. S-bar(rate) = rate^2 S-bar(1) = 1."""
        return rate_of(self.mean)

    def __str__(self) -> str:
        rows = [f"{i:>4}  {kind:<8}  {energy:>10}  {weight}" for i, kind, energy, weight in self._rows]
        rate = f"mean energy 1 at rate {self.rate:.3e}" if self.mean > 0 else "no unit before the head moves"
        top = f"mean energy {self.mean:.3e}, readout energy {self.readout:.3e}; {rate}"
        return "\n".join([top, *rows])

    def _repr_html_(self) -> str:
        columns = ("unit", "kind", "energy at rate 1", "last weight")
        return html_table(str(self).partition("\n")[0], columns, self._rows)

    @property
    def _rows(self) -> list[tuple[int, str, str, str]]:
        return [(i, u.unit.kind, f"{u.energy:.3e}", u.unit.branch or u.unit.path) for i, u in enumerate(self.units, 1)]


def rate_of(mean_energy: float) -> float:
    """The rate at which a mean energy, measured at rate 1, is 1.

    Args:
        mean_energy: Of one step at rate 1.
    """
    if mean_energy <= 0:
        raise DepthlrError("the step moves no unit before the head, so no rate gives a mean energy of 1.")
    return float(mean_energy**-0.5)


def update_energy(
    model: nn.Module,
    batches: Any,
    loss_fn: LossFn | None = None,
    optimizer: Any = "sgd",
    *,
    probe: Any = None,
    units: Units = None,
    seed: int = 0,
    limit: int | None = None,
) -> Energy:
    """Measure the energy of one optimizer step at rate 1, at every unit and at the readout of this initialization.

    Model, gradients, buffers and random states are not changed.

    Args:
        model: Initialized as it will be trained.
        batches: One (inputs, target) or several, over which energies are averaged. A batch is what one optimizer step
            sees: with gradient accumulation, all micro-batches of a step together.
        loss_fn: The loss is `loss_fn(model(inputs), target)`. If None, it is the one that the model's output holds, as
            that of a Hugging Face model does where the batch is a mapping with labels.
        optimizer: An object, a list of them, a name, an optimizer's class, or a factory that takes the model, such as
            `lambda model: AdamW(model.parameters())`. Its real next step is the direction.
        probe: The batch on which the step is measured; if None, the batch that it learns from.
        units: As in `effective_depth`.
        seed: Fixes dropout, stochastic depth and what a loader draws.
        limit: How many batches are used; if None, all of a list and four of a loader.
    """
    model, parameters = unwrap_measurable(model)
    check_units(units)
    seed = check.seed("The seed", seed)
    if isinstance(units, int):
        raise DepthlrError("units= as a number says nothing about where to measure: pass classes, such as [Block].")
    batches = read_batches(batches, limit, ENERGY_BATCHES, seed)
    energies = []
    with measuring(len(batches)):
        for batch in batches:
            learned = loss_gradients(
                model, parameters, batch, loss_fn, seed, record=True, allow_recurrence=units is not None
            )
            depth = depth_of(learned.graph, units)  # while the GPU still computes the gradient
            check_moves(largest_entry_if_finite(learned.loss, learned.gradients))
            direction = step_direction(optimizer, model, learned.gradients)
            seen = batch if probe is None else check_batch(probe)
            arguments, _ = split_batch(seen, next(iter(parameters.values())).device)
            with seeded_run(model, seed):
                energies.append(_measure(model, parameters, arguments, direction, learned, depth))
            count_batch()
    return _average(energies)


def _measure(
    model: nn.Module,
    parameters: dict[str, nn.Parameter],
    arguments: Arguments,
    direction: dict[str, Tensor],
    learned: LossGradients,
    depth: Depth,
) -> Energy:
    """Energies at every unit's pre-activation and at the readout: the tangents of one forward-mode pass."""
    squares: dict[int, Tensor] = {}

    def see(node: int, value: Tensor) -> None:
        squares[node] = _squares(value)

    states = [unit.state for unit in depth.units]
    with jvp(model, parameters, direction, arguments, Watch(learned.graph, set(states), see)) as output:
        readout = _squares(readouts_of(output)[learned.readout])
    *values, (change, size) = torch.stack([*(squares[node] for node in states), readout]).tolist()
    units = tuple(UnitEnergy(unit, *value) for unit, value in zip(depth.units, values, strict=True))
    return Energy(units, change, size, float(learned.loss))


def _squares(value: Tensor) -> Tensor:
    """(energy, mean square) of a dual tensor."""
    primal, tangent = value_and_change(value)
    return torch.stack([mean_product(tangent, tangent), mean_product(primal, primal)])


def _average(energies: list[Energy]) -> Energy:
    """Expectation over batches: the mean of each energy."""
    if any(len(m.units) != len(energies[0].units) for m in energies):
        raise DepthlrError("the model has another depth on another batch: pass batches of one shape.")
    units = []
    for same in zip(*(m.units for m in energies), strict=True):
        energy = fmean(u.energy for u in same)
        units.append(UnitEnergy(same[0].unit, energy, fmean(u.mean_square for u in same)))
    readout = fmean(m.readout for m in energies)
    readout_mean_square = fmean(m.readout_mean_square for m in energies)
    return Energy(
        tuple(units),
        readout,
        readout_mean_square,
        fmean(m.loss for m in energies),
    )


@dataclass(frozen=True)
class Spread:
    """One quantity over several initializations."""

    median: float
    mean: float
    sd_log10: float  # in decades; energies of deep plain stacks are far from normal

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        decades = [log10(v) for v in values if v > 0]
        return Spread(median(values), fmean(values), stdev(decades) if len(decades) > 1 else 0.0)


@dataclass(frozen=True)
class EnergyOverSeeds:
    """Energies of several initializations of one model."""

    energies: tuple[Energy, ...]

    @property
    def mean_energy(self) -> Spread:
        return Spread.of([e.mean for e in self.energies])

    @property
    def readout(self) -> Spread:
        return Spread.of([e.readout for e in self.energies])

    @property
    def rate(self) -> float:
        """Rate at which the median over initializations of the mean energy is 1."""
        return rate_of(self.mean_energy.median)

    @property
    def units(self) -> tuple[UnitEnergy, ...]:
        """The units of one initialization; all have the same."""
        return self.energies[0].units

    def aggregate(self, how: str = "arithmetic", *, relative: bool = False) -> float:
        """Median over initializations of the typical unit's energy."""
        return median(e.aggregate(how, relative=relative) for e in self.energies)


def update_energy_over_seeds(
    build: Callable[[], nn.Module],
    seeds: Sequence[int],
    batches: Any,
    loss_fn: LossFn | None = None,
    optimizer: Any = "sgd",
    *,
    seed: int = 0,
    limit: int | None = None,
    **options: Any,
) -> EnergyOverSeeds:
    """Measure `update_energy` of `build()` for each seed.

    Args:
        build: Returns a new model with newly drawn weights.
        seeds: One initialization is measured for each.
        batches: As in `update_energy`. All seeds use the same batches.
        loss_fn: As in `update_energy`.
        optimizer: A factory or a name, since every model is new.
        seed: Seeds dropout and what a loader draws.
        limit: As in `update_energy`.
        options: Other options of `update_energy`.
    """
    check.counts("seeds", seeds, least=0)
    check_fits_any_model(optimizer)
    seed = check.seed("The seed", seed)
    batches = read_batches(batches, limit, ENERGY_BATCHES, seed)  # once: a loader may give others the next time
    energies = []
    with measuring(len(seeds) * len(batches)):
        for number, model in enumerate(draw_models(build, seeds), 1):
            with labelled(f"initialization {number} of {len(seeds)}"):
                energies.append(update_energy(model, batches, loss_fn, optimizer, seed=seed, **options))
    return EnergyOverSeeds(tuple(energies))
