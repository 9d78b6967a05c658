"""An absolute rate for a model as it is initialised, from its first step's energies and no training run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from depthlr.energy.batch import LossFn, batches_of
from depthlr.energy.energy import Energy
from depthlr.energy.measure import update_energy
from depthlr.energy.step import optimizers_of
from depthlr.errors import DepthlrError
from depthlr.law.aggregate import geometric
from depthlr.law.html import html_table
from depthlr.trace.depth import Units
from depthlr.trace.unwrap import unwrap

MEASURE = "rate at which the larger of mean energy and readout energy is 1"
# Half of the interval, provisional. Against tuned rates of CNN, ResNet and ViT (SGD and Adam, CIFAR-10, 100 steps) the
# median |log10 error| of this measure was 0.13; that of readout energy alone was 0.15 with four further families. Were
# errors normal, 80 % would lie within 0.25 to 0.29 decades. Rounded up: so few tasks say little about yours.
INTERVAL_DECADES = 0.3
COVERAGE = 0.8
UNCALIBRATED = (
    f"the interval, a factor of {10**INTERVAL_DECADES:.1f} either way, is provisional: aimed at {COVERAGE:.0%} from "
    "the scatter of a few tasks, not yet calibrated on a benchmark."
)
ASSUMES = "a constant rate from this initialisation on; the energies are of the first step alone."


@dataclass(frozen=True)
class SuggestedRate:
    """A rate, the interval that should hold the best one `coverage` of the time, and what was assumed."""

    rate: float
    low: float
    high: float
    coverage: float
    measure: str
    notes: tuple[str, ...] = ()

    def __float__(self) -> float:
        return self.rate

    def __str__(self) -> str:
        return "\n".join([self._head(), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return html_table(self._head(), (), (), (self.measure, *self.notes))

    def _head(self) -> str:
        return f"{self.rate:.3g} ({self.coverage:.0%} {self.low:.3g} to {self.high:.3g})"


def suggest_rate(
    model: nn.Module,
    batches: Any,
    loss_fn: LossFn,
    optimizer: Any = "sgd",
    *,
    units: Units = None,
    seed: int = 0,
    limit: int = 4,
) -> SuggestedRate:
    """A rate for `model` as it is initialised, in about the time of three training steps a batch.

    Arguments are those of `update_energy`; several batches give the geometric mean of their rates. Where there is no
    such rate, an error says why. The model, its gradients, the optimizer and random states are left as they were.
    """
    found = [
        update_energy(model, [batch], loss_fn, optimizer, units=units, seed=seed)
        for batch in batches_of(batches, limit)
    ]
    optimizers = optimizers_of(optimizer, list(unwrap(model).parameters()))
    gains = _momentum_gains(optimizers)
    # Energy is quadratic in the rate: rate^2 max(S-bar(1), S_readout(1)) = 1.
    rate = geometric(_largest(energy) for energy in found) ** -0.5 / max([1.0, *gains])
    if not (math.isfinite(rate) and rate > 0):
        raise DepthlrError(f"the suggested rate is {rate:g}, outside what a float can hold: check the loss's scale.")
    factor = 10**INTERVAL_DECADES
    return SuggestedRate(rate, rate / factor, rate * factor, COVERAGE, MEASURE, _notes(found, optimizers, gains))


def _largest(energy: Energy) -> float:
    """The larger of mean and readout energy; what cannot be a rate is refused."""
    values = [*(u.energy for u in energy.units), energy.readout]
    if not all(math.isfinite(value) for value in values):
        raise DepthlrError("the energies of a step overflow, so no rate can be read from them: check the init.")
    largest = max(energy.mean, energy.readout)
    if largest <= 0:
        raise DepthlrError("the step moves neither a unit nor the readout, so no rate can be read from it.")
    return largest


def _momentum_gains(optimizers: Sequence[Optimizer]) -> list[float]:
    """How much further momentum takes each moving group in the long run than in the first step, which was measured."""
    gains = []
    for one in optimizers:
        if isinstance(one, SGD) and any(slots.get("momentum_buffer") is not None for slots in one.state.values()):
            raise DepthlrError("the optimizer has taken steps already, and momentum carries them on: pass a new one.")
        for group in filter(_moves, one.param_groups):
            # Normalised steps (Adam, Muon) do not add up to longer ones.
            gains.append(_sgd_gain(group) if isinstance(one, SGD) else 1.0)
    return gains


def _moves(group: dict[str, Any]) -> bool:
    rate = group.get("initial_lr", group["lr"])  # a scheduler's warm-up may start at 0
    return float(rate) != 0 and any(parameter.requires_grad for parameter in group["params"])


def _sgd_gain(group: dict[str, Any]) -> float:
    momentum = float(group["momentum"])
    if momentum >= 1:
        raise DepthlrError(f"a momentum of {momentum:g} never settles: choose one below 1.")
    first = 1 + momentum if group["nesterov"] else 1.0
    long_run = (1 - float(group["dampening"])) / (1 - momentum) if momentum else 1.0
    return long_run / first


def _notes(found: Sequence[Energy], optimizers: Sequence[Optimizer], gains: Sequence[float]) -> tuple[str, ...]:
    notes = [UNCALIBRATED, ASSUMES]
    gain = max(gains, default=1.0)
    if gain > 1:
        most = ", in the group where it adds most," if min(gains) < gain else ""
        notes.append(
            f"momentum{most} moves {gain:.3g} times as far in the long run as in the first step, so the measured rate "
            "was divided by that."
        )
    if any(energy.mean <= 0 for energy in found):
        notes.append("the first step moves the readout alone (a head that starts at zero?): units may move later.")
    others = dict.fromkeys(type(one).__name__ for one in optimizers if type(one) not in (SGD, Adam, AdamW))
    if others:
        notes.append(f"compared with tuned rates for SGD and Adam alone, not for {', '.join(others)}.")
    return tuple(notes)
