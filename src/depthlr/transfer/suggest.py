"""An absolute rate for a model as it is initialized, from a measured step and no training run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW

from depthlr import check
from depthlr.energy.batches import batches_for_seeds
from depthlr.energy.gradient import loss_gradients, unwrap_measurable
from depthlr.energy.initializations import EVAL_MODE_NOTE, SAME_WEIGHTS_NOTE, Build, Draws, model_of
from depthlr.energy.persistent import (
    LARGE_ERROR,
    SEEDS,
    PersistentEnergy,
    persistent_energy,
    rate_over_draws,
    readout_size_note,
)
from depthlr.energy.progress import labelled, measuring
from depthlr.energy.step import (
    LARGEST_GROUP,
    check_fits_any_model,
    group_moves,
    has_stepped,
    optimizers_of,
    own_rates,
    step_direction,
)
from depthlr.energy.tensors import as_real, dense
from depthlr.errors import DepthlrError
from depthlr.formatting import html_table
from depthlr.law.carried_rate import COVERAGE, NORMAL_QUANTILE, decays
from depthlr.trace.interface import LossFn, check_runnable, unwrap
from depthlr.transfer.recipe import Recipe

SUGGESTION_EVIDENCE = (
    "The interval is from runs of 100 to 200 steps that began from init_. On 24 models of six recipes with 1,200 "
    "steps, warm-up, decay and library initialization the median error was 0.22 decades, the worst 1.23, and the "
    "interval contained 21 tuned rates."
)


@dataclass(frozen=True)
class Calibration:
    """Where tuned rates of TransferBench's tasks with one schedule lie relative to a measured rate.

    Each task contributes eight initializations, one at a time.

    Args:
        decades: log10(tuned rate / measured rate) of the median task.
        interval: The error that `COVERAGE` of tuned rates stay below if their task is left out, rounded up.
    """

    decades: float
    interval: float


@dataclass(frozen=True)
class Basis:
    """What a suggestion is computed from, and its calibration for each schedule."""

    measure: str
    calibrations: Mapping[str, Calibration]


BALANCED = Basis(
    "the geometric mean of two rates: that of persistent energy 1, and that of the Polyak step, whose predicted fall "
    "is the whole loss",
    {"constant": Calibration(-0.12, 0.32), "warmup-cosine": Calibration(0.38, 0.62)},
)
ENERGY_ALONE = Basis(
    "the rate of persistent energy 1",
    {"constant": Calibration(0.21, 0.39), "warmup-cosine": Calibration(0.72, 0.66)},
)
SCHEDULE_NOTES = {
    "constant": "a constant rate from this initialization on; the interval is what 17 classification tasks, "
    "initialized by init_ and tuned so, scatter over.",
    "warmup-cosine": "the peak, after a warm-up over a tenth of the run and before cosine decay; 7 classification "
    "tasks, initialized by init_, were tuned so, at 0.5 to 12 times what is suggested for a constant rate.",
}
RECURRENT_NOTE = "recurrent models were not among the tasks that the interval was calibrated on."
NO_FALL_NOTE = (
    "the loss is not above 0 or the first step does not lower it (the least loss is {:.3g}), so the Polyak step is "
    "left out of the measure."
)
NOISY_NOTE = (
    "the steps of {} batches have hardly anything in common, so the rate is a guess: take more or larger batches."
)
MOMENTUM_NOTE = (
    "momentum moves the weights up to {:.3g} times as far in the long run as in the first step; the measured rate was "
    "divided by the root of that, {:.3g}."
)
SCATTERED = (
    "initializations scatter, so the measured rate is known to {:.2f} decades (one standard error): take more seeds."
)

EnergyAndFall = tuple[PersistentEnergy, float]  # of one initialization; the fall is `predicted_fall`


@dataclass(frozen=True)
class SuggestedRate:
    """A rate, the interval that holds the best rate with probability `coverage`, and what was assumed."""

    rate: float
    low: float
    high: float
    coverage: float
    measure: str
    notes: tuple[str, ...] = ()
    evidence: str = SUGGESTION_EVIDENCE  # what the interval rests on, and where that ends

    def __float__(self) -> float:
        return self.rate

    def __str__(self) -> str:
        return "\n".join([self._head(), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return html_table(self._head(), (), (), (self.measure, *self.notes, self.evidence))

    def _head(self) -> str:
        return f"{self.rate:.3g} ({self.coverage:.0%} {self.low:.3g} to {self.high:.3g})"


def suggest_rate(
    model: nn.Module | Build | Recipe,
    batches: Any = None,
    loss_fn: LossFn | None = None,
    optimizer: Any = None,
    *,
    schedule: str | None = None,
    seed: int = 0,
    seeds: int = SEEDS,
    limit: int | None = None,
) -> SuggestedRate:
    """Suggest a rate for a model without any training run, in about the time of one training step per batch.

    Model, gradients, optimizer and random states are not changed.

    The interval is from runs of 100 to 200 steps that began from init_. On 24 models of six recipes with 1,200 steps,
    warm-up, decay and library initialization the median error was 0.22 decades, the worst 1.23, and the interval
    contained 21 tuned rates.

    Args:
        model: A model, or a function that builds it. A function lets the suggestion average over initializations, which
            differ a lot in narrow models and deep plain stacks. Or a `Recipe`, which holds the next four entries; any
            schedule of a recipe that decays counts as "warmup-cosine".
        batches: Three batches or more, as in `persistent_energy`.
        loss_fn: As in `update_energy`.
        optimizer: As in `update_energy`. None is "sgd". It must not have taken a step.
        schedule: "constant", or "warmup-cosine", for which the peak rate is suggested. None is "constant".
        seed: The first seed.
        seeds: The number of initializations, if `model` is a function.
        limit: Batches per initialization.

    Returns:
        The rate with an interval and notes.

    Raises:
        DepthlrError: No rate can be read from this model.
    """
    if isinstance(model, Recipe):
        if (batches, loss_fn, optimizer, schedule) != (None,) * 4:
            raise DepthlrError("the recipe holds batches, loss_fn, optimizer and schedule: write them into the recipe.")
        batches, loss_fn, optimizer = model.batches, model.loss_fn, model.optimizer
        schedule = "warmup-cosine" if decays(model.schedule) else "constant"
        if not callable(model.build):  # as models are, too
            raise DepthlrError(f"a suggestion measures a model, and the recipe has {model.build!r}: build the model.")
        model = model.build
    if batches is None:
        raise DepthlrError("a rate is measured on batches: pass three or more.")
    optimizer, schedule = optimizer or "sgd", schedule or "constant"
    if schedule not in SCHEDULE_NOTES:
        known = " or ".join(SCHEDULE_NOTES)
        raise DepthlrError(f"There is no calibration for the schedule {schedule!r}: choose {known}.")
    seed = check.seed("The seed", seed)
    drawn_seeds = range(seed, seed + check.count("The number of seeds", seeds, least=1))
    if not isinstance(model, nn.Module):
        check_fits_any_model(optimizer)
    gain, notes = _look_at(model_of(model), optimizer)
    draws = Draws(model, drawn_seeds)
    given = batches_for_seeds(batches, len(draws), limit, seed)
    found: list[EnergyAndFall] = []
    with measuring(len(draws) * given.size):
        for number, drawn in enumerate(draws, 1):
            own = next(given.per_seed)
            with labelled("" if drawn is model else f"initialization {number} of {len(draws)}"):
                energy = persistent_energy(drawn, own, loss_fn, optimizer, seed=seed)
                found.append((energy, predicted_fall(drawn, own[0], loss_fn, optimizer, seed=seed)))
            del own  # before the next ones are read
    if draws.same_weights:
        notes.append(SAME_WEIGHTS_NOTE)
    return _suggest(found, schedule, gain, notes)


def _look_at(model: nn.Module, optimizer: Any) -> tuple[float, list[str]]:
    """How much further momentum takes a model in the long run than in the first step, and notes on both."""
    model = unwrap(model)
    check_runnable(model)
    optimizers = optimizers_of(optimizer, model)
    if any(map(has_stepped, optimizers)):
        raise DepthlrError("the optimizer has taken steps already, and a suggestion is for the first: pass a new one.")
    if any(group.get("maximize") for one in optimizers for group in one.param_groups):
        raise DepthlrError("the optimizer maximizes: turn the loss's sign, and leave out maximize.")
    # Normalised steps (Adam, Muon) do not add up to longer ones.
    groups = [group for one in optimizers if isinstance(one, SGD) for group in one.param_groups if group_moves(group)]
    gain = max([1.0, *map(_momentum_gain, groups)])
    others = dict.fromkeys(type(one).__name__ for one in optimizers if type(one) not in (SGD, Adam, AdamW))
    possible = {
        EVAL_MODE_NOTE: not model.training,
        RECURRENT_NOTE: any(isinstance(module, nn.RNNBase | nn.RNNCellBase) for module in model.modules()),
        MOMENTUM_NOTE.format(gain, math.sqrt(gain)): gain > 1,
        LARGEST_GROUP: own_rates(optimizers).ratios != (1.0,),
        f"compared with tuned rates for SGD, Adam and AdamW alone, not for {', '.join(others)}.": bool(others),
    }
    return gain, [note for note, applies in possible.items() if applies]


def _momentum_gain(group: dict[str, Any]) -> float:
    """How much longer SGD's step is in the long run than at first, if the gradient stays the same."""
    momentum = float(group["momentum"])
    if momentum >= 1:
        raise DepthlrError(f"a momentum of {momentum:g} never settles: choose one below 1.")
    first = 1 + momentum if group["nesterov"] else 1.0
    long_run = (1 - float(group["dampening"])) / (1 - momentum) if momentum else 1.0
    return long_run / first


def predicted_fall(
    model: nn.Module, batch: Any, loss_fn: LossFn | None, optimizer: Any = "sgd", *, seed: int = 0
) -> float:
    """The predicted fall of the loss on a batch in the optimizer's next step at rate 1, to first order: F = -<g, d>.

    g is the gradient and d the step. At the Polyak step, rate L / F, the predicted fall is the whole loss L. F is
    negative if the loss would rise.

    Args:
        model: As in `suggest_rate`.
        batch: One batch.
        loss_fn: As in `suggest_rate`.
        optimizer: As in `suggest_rate`.
        seed: Seeds dropout.
    """
    model, parameters = unwrap_measurable(model)
    gradients = loss_gradients(model, parameters, batch, loss_fn, seed).gradients
    direction = step_direction(optimizer, model, gradients)
    products = []
    for name, gradient in gradients.items():
        change = as_real(direction[name]).double()
        products.append((as_real(dense(gradient)).double() * change).sum())
    return -float(torch.stack(products).sum())


def _suggest(found: Sequence[EnergyAndFall], schedule: str, gain: float, notes: Sequence[str]) -> SuggestedRate:
    """The suggestion: 10**calibration * (geometric mean of the measured rates) / sqrt(gain).

    Momentum takes a steady drift `gain` times as far, while the limit of stability hardly moves: tuned rates lie in
    between, near the geometric middle. The interval adds the calibration's error and the scatter over initializations.
    """
    basis, rates = measured_rates(found)
    calibration = basis.calibrations[schedule]
    decades = [math.log10(rate) for rate in rates]
    rate = 10 ** (calibration.decades + fmean(decades) - 0.5 * math.log10(gain))
    scatter = stdev(decades) / math.sqrt(len(decades)) if len(decades) > 1 else 0.0
    factor = 10 ** math.hypot(calibration.interval, NORMAL_QUANTILE * scatter)
    energies = [energy for energy, _ in found]
    readout_note = readout_size_note(energies) or ""
    possible = {
        NO_FALL_NOTE.format(min(one.loss for one in energies)): basis is ENERGY_ALONE,
        readout_note: bool(readout_note),
        NOISY_NOTE.format(energies[0].batches): rate_over_draws(energies).noisy,
        SCATTERED.format(scatter): scatter > LARGE_ERROR,
    }
    measure = f"{10**calibration.decades:.2g} times {basis.measure}"
    all_notes = (SCHEDULE_NOTES[schedule], *notes, *(note for note, applies in possible.items() if applies))
    return SuggestedRate(rate, rate / factor, rate * factor, COVERAGE, measure, all_notes)


def measured_rates(found: Sequence[EnergyAndFall]) -> tuple[Basis, list[float]]:
    """A rate for each initialization: sqrt(rate of persistent energy 1 * Polyak rate), where the Polyak rate is L / F.

    At the Polyak rate, the predicted fall is the whole loss. A convolutional network's first step moves the readout far
    and predicts a small fall, so its rate may be higher than energy 1 says. If an initialization predicts no fall, the
    energy is used alone.

    Args:
        found: The energy (with the loss L) and the predicted fall F of each initialization.
    """
    rates = [energy.rate for energy, _ in found]
    polyak = [energy.loss / fall for energy, fall in found if fall > 0]
    if len(polyak) < len(found) or not all(0 < one < math.inf for one in polyak):
        return ENERGY_ALONE, rates
    return BALANCED, [math.sqrt(rate * one) for rate, one in zip(rates, polyak, strict=True)]
