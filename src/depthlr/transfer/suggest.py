"""An absolute rate for a model as it is initialized, from a measured step and no training run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.overrides import TorchFunctionMode

from depthlr import check
from depthlr.energy.batches import batches_for_seeds
from depthlr.energy.given_optimizer import LARGEST_GROUP, group_moves, has_stepped, optimizers_of, own_rates
from depthlr.energy.gradient import loss_gradients, unwrap_measurable
from depthlr.energy.initializations import (
    EVAL_MODE_NOTE,
    SAME_WEIGHTS_NOTE,
    Build,
    Draws,
    check_draws,
)
from depthlr.energy.persistent import (
    LARGE_ERROR,
    SEEDS,
    PersistentEnergy,
    persistent_energy,
    rate_over_draws,
    readout_size_note,
)
from depthlr.energy.progress import labelled, measuring
from depthlr.energy.step import step_direction
from depthlr.energy.tensors import as_real, dense
from depthlr.errors import DepthlrError
from depthlr.formatting import html_table
from depthlr.law.carried_rate import COVERAGE, NORMAL_QUANTILE
from depthlr.trace.interface import LossFn, check_runnable, unwrap
from depthlr.trace.operations import RECURRENT, RECURRENT_CELLS

FLOAT_DECADES = 300  # a float holds 308
SUGGESTION_EVIDENCE = (
    "The interval is from runs of 100 to 200 steps that began from init_. In longer runs with warm-up and decay, and "
    "from other initializations, the suggestion errs by more."
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
SCATTERED = (
    "initializations scatter, so the measured rate is known to {:.2f} decades (one standard error): take more seeds."
)


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
    model: nn.Module | Build,
    batches: Any,
    loss_fn: LossFn | None = None,
    optimizer: Any = "sgd",
    *,
    schedule: str = "constant",
    seed: int = 0,
    seeds: int = SEEDS,
    limit: int | None = None,
) -> SuggestedRate:
    """Suggest a rate for a model without any training run, in about the time of one training step per batch.

    Model, gradients, optimizer and random states are not changed.

    The interval is from runs of 100 to 200 steps that began from init_. In longer runs with warm-up and decay, and from
    other initializations, the suggestion errs by more.

    Args:
        model: A model, or a function that builds it. A function lets the suggestion average over initializations, which
            differ a lot in narrow models and deep plain stacks.
        batches: Three batches or more, as in `persistent_energy`.
        loss_fn: As in `update_energy`.
        optimizer: As in `update_energy`. It must not have taken a step.
        schedule: "constant", or "warmup-cosine", for which the peak rate is suggested.
        seed: The first seed.
        seeds: The number of initializations, if `model` is a function.
        limit: Batches per initialization.

    Returns:
        The rate with an interval and notes.

    Raises:
        DepthlrError: No rate can be read from this model.
    """
    if schedule not in SCHEDULE_NOTES:
        known = " or ".join(SCHEDULE_NOTES)
        raise DepthlrError(f"There is no calibration for the schedule {schedule!r}: choose {known}.")
    seed = check.seed("The seed", seed)
    drawn_seeds = range(seed, seed + check.count("The number of seeds", seeds, least=1))
    if not isinstance(model, nn.Module):
        check_draws(drawn_seeds, optimizer)
    draws = Draws(model, drawn_seeds)
    given = batches_for_seeds(batches, len(draws), limit, seed)
    found: list[_Measurement] = []
    with measuring(len(draws) * given.size):
        for number, drawn in enumerate(draws, 1):
            with labelled("" if drawn is model else f"initialization {number} of {len(draws)}"):
                measured = _measure(drawn, next(given.per_seed), loss_fn, optimizer, seed)
            found.append(replace(measured, optimizers=[]) if found else measured)  # which would keep all the models
    return _suggest(found, schedule, draws.same_weights)


@dataclass(frozen=True)
class _Measurement:
    """One initialization."""

    energy: PersistentEnergy
    fall: float
    optimizers: list[Optimizer]  # of the first initialization alone
    training: bool
    recurrent: bool


def _measure(model: nn.Module, batches: list[Any], loss_fn: LossFn | None, optimizer: Any, seed: int) -> _Measurement:
    model = unwrap(model)
    check_runnable(model)
    optimizers = optimizers_of(optimizer, model)
    if any(map(has_stepped, optimizers)):
        raise DepthlrError("the optimizer has taken steps already, and a suggestion is for the first: pass a new one.")
    if any(group.get("maximize") for one in optimizers for group in one.param_groups):
        raise DepthlrError(
            "the optimizer maximizes, and a suggestion is for a loss that falls: turn the loss's sign and leave out "
            "maximize."
        )
    energy = persistent_energy(model, batches, loss_fn, optimizer, seed=seed)
    with RecurrenceWatch() as watch:
        fall = predicted_fall(model, batches[0], loss_fn, optimizer, seed=seed)
    return _Measurement(energy, fall, optimizers, model.training, watch.seen)


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


class RecurrenceWatch(TorchFunctionMode):
    """Sets `seen` when a recurrent layer or cell runs inside the context."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.seen |= getattr(func, "__name__", "") in RECURRENT | RECURRENT_CELLS
        return func(*args, **(kwargs or {}))


def _suggest(found: Sequence[_Measurement], schedule: str, same_weights: bool) -> SuggestedRate:
    optimizers = found[0].optimizers
    gains = _momentum_gains(optimizers)
    basis, rates = measured_rates([(one.energy, one.fall) for one in found])
    calibration = basis.calibrations[schedule]
    decades = [math.log10(rate) for rate in rates]
    # Momentum takes a steady drift 1 / (1 - beta) as far, while the limit of stability hardly moves: tuned rates lie in
    # between, near the geometric middle.
    log_rate = calibration.decades + fmean(decades) - 0.5 * math.log10(max([1.0, *gains]))
    if not abs(log_rate) < FLOAT_DECADES:
        raise DepthlrError(
            f"the suggested rate is 10^{log_rate:.0f}, beyond what a float holds: check the loss's scale."
        )
    rate = 10**log_rate
    scatter = stdev(decades) / math.sqrt(len(decades)) if len(decades) > 1 else 0.0
    factor = 10 ** math.hypot(calibration.interval, NORMAL_QUANTILE * scatter)
    possible = {
        SCHEDULE_NOTES[schedule]: True,
        EVAL_MODE_NOTE: not found[0].training,
        SAME_WEIGHTS_NOTE: same_weights,
        RECURRENT_NOTE: any(one.recurrent for one in found),
    }
    notes = [note for note, applies in possible.items() if applies]
    notes += _notes([one.energy for one in found], basis, optimizers, gains)
    if scatter > LARGE_ERROR:
        notes.append(SCATTERED.format(scatter))
    measure = f"{10**calibration.decades:.2g} times {basis.measure}"
    return SuggestedRate(rate, rate / factor, rate * factor, COVERAGE, measure, tuple(notes))


def measured_rates(draws: Sequence[tuple[PersistentEnergy, float]]) -> tuple[Basis, list[float]]:
    """The geometric mean of the rate of persistent energy 1 and the rate at which the predicted fall is the whole loss.

    A convolutional network's first step moves the readout far and predicts a small fall, so its rate may be higher than
    energy 1 says. If an initialization predicts no fall, the energy is used alone.

    Args:
        draws: The energy and the predicted fall of each initialization.
    """
    rates = [energy.rate for energy, _ in draws]
    polyak = [energy.loss / fall for energy, fall in draws if fall > 0]  # L / -<g, d>: as if it could fall to 0
    if len(polyak) < len(draws) or not all(0 < one < math.inf for one in polyak):
        return ENERGY_ALONE, rates
    return BALANCED, [math.sqrt(rate * one) for rate, one in zip(rates, polyak, strict=True)]


def _momentum_gains(optimizers: Sequence[Optimizer]) -> list[float]:
    """How much further momentum takes each moving group in the long run than in the first step, which was measured."""
    gains = []
    for one in optimizers:
        for group in filter(group_moves, one.param_groups):
            # Normalised steps (Adam, Muon) do not add up to longer ones.
            gains.append(_sgd_gain(group) if isinstance(one, SGD) else 1.0)
    return gains


def _sgd_gain(group: dict[str, Any]) -> float:
    momentum = float(group["momentum"])
    if momentum >= 1:
        raise DepthlrError(f"a momentum of {momentum:g} never settles: choose one below 1.")
    first = 1 + momentum if group["nesterov"] else 1.0
    long_run = (1 - float(group["dampening"])) / (1 - momentum) if momentum else 1.0
    return long_run / first


def _notes(
    found: Sequence[PersistentEnergy], basis: Basis, optimizers: Sequence[Optimizer], gains: Sequence[float]
) -> list[str]:
    notes = []
    if basis is ENERGY_ALONE:
        least = min(one.loss for one in found)
        notes.append(
            f"the loss is not above 0 or the first step does not lower it (the least loss is {least:.3g}), so the "
            "Polyak step is left out of the measure."
        )
    if strange := readout_size_note(found):
        notes.append(strange)
    if rate_over_draws(found).noisy:
        notes.append(
            f"the steps of {found[0].batches} batches have hardly anything in common, so the rate is a guess: "
            "take more or larger batches."
        )
    gain = max(gains, default=1.0)
    if gain > 1:
        most = ", in the group where it adds most," if min(gains) < gain else ""
        notes.append(
            f"momentum{most} moves {gain:.3g} times as far in the long run as in the first step; the measured rate was "
            f"divided by the root of that, {math.sqrt(gain):.3g}."
        )
    if own_rates(optimizers).ratios != (1.0,):
        notes.append(LARGEST_GROUP)
    others = dict.fromkeys(type(one).__name__ for one in optimizers if type(one) not in (SGD, Adam, AdamW))
    if others:
        notes.append(f"compared with tuned rates for SGD, Adam and AdamW alone, not for {', '.join(others)}.")
    return notes
