"""What the trainers share: the batches of one optimizer step, and the report on the rate of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor, distributed
from torch.utils._pytree import tree_map

from depthlr.energy.energy import Energy, update_energy
from depthlr.energy.initializations import build_model
from depthlr.errors import DepthlrError, one_sentence_errors
from depthlr.law.carried_rate import CarriedRate
from depthlr.transfer.rules import Recipe

FAR = 3.0  # a rate in use that is farther than this factor from a carried one without interval is in doubt


@dataclass(frozen=True)
class StepBatches:
    """The batches that one optimizer step sees: micro-batches of a loader joined along their first dimension.

    Every batch is `{"batch": ...}`, the argument of a module that computes the trainer's own loss.

    Args:
        loader: Returns a new loader. It is called for each pass, so that a shuffled order is drawn anew.
        micro_batches: How many of its batches one optimizer step sees, over all ranks.
    """

    loader: Callable[[], Iterable[Any]] = field(repr=False)
    micro_batches: int = 1

    def __iter__(self) -> Iterator[dict[str, Any]]:
        batches = map(to_plain_batch, self.loader())
        while group := list(islice(batches, self.micro_batches)):
            yield {"batch": group[0] if len(group) == 1 else join_batches(group)}

    def __len__(self) -> int:
        return -(-len(self.loader()) // self.micro_batches)  # type: ignore[arg-type]


def to_plain_batch(batch: Any) -> Any:
    """A batch in plain dicts: a tokenizer's mapping is not a container that torch copies.

    Args:
        batch: A batch, or a part of one.
    """
    if isinstance(batch, Mapping):
        return {name: to_plain_batch(value) for name, value in batch.items()}
    return batch


def join_batches(batches: list[Any]) -> Any:
    """One batch of all examples of several batches.

    Args:
        batches: Batches of one structure, with tensors that differ in their first dimension at most.
    """

    def join(*parts: Any) -> Any:
        return torch.cat(parts) if isinstance(parts[0], Tensor) and parts[0].dim() else parts[0]

    with one_sentence_errors(
        "the micro-batches of one optimizer step have different shapes and cannot be joined: pad them to one length, "
        "or pass a loader whose batch is what one optimizer step sees"
    ):
        return tree_map(join, *batches)


def autocast_to(device: torch.device, dtype: torch.dtype | None) -> torch.autocast:
    """Mixed precision as a trainer sets it; nothing if `dtype` is None.

    Weights are cast anew at every use: a cached cast would not carry the tangent of a forward-mode pass.

    Args:
        device: Where the model runs.
        dtype: The type of half precision.
    """
    return torch.autocast(device.type, dtype, enabled=dtype is not None, cache_enabled=False)


def world_size() -> int:
    """The number of processes that train together."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def report_on(
    carry: Callable[[], CarriedRate], target: Recipe, rate: float | None = None, *, energies: bool = True
) -> RunReport:
    """Carry a rate to the recipe of a run, and measure its first step.

    Every rank measures, since the model may use collective operations. Rounding may differ between devices, so the
    report of rank 0 is broadcast.

    Args:
        carry: Returns the carried rate.
        target: The recipe of the run.
        rate: The rate that the run uses; the carried one if None.
        energies: Also measure the update energy of the run's first step.

    Raises:
        DepthlrError: This rank or rank 0 could not measure.
    """
    own: RunReport | DepthlrError
    try:
        carried, energy = carry(), None
        if energies:
            build: Any = target.build
            model = build if isinstance(build, torch.nn.Module) else build_model(build, 0)
            energy = update_energy(model, target.batches, target.loss_fn, target.optimizer)
        own = RunReport(carried, energy, carried.rate if rate is None else rate)
    except DepthlrError as error:
        own = error
    answers = [own]
    if world_size() > 1:
        distributed.broadcast_object_list(answers, src=0)
    (first,) = answers
    if isinstance(own, DepthlrError):
        raise own
    if isinstance(first, DepthlrError):
        raise first
    return first


@dataclass(frozen=True)
class RunReport:
    """What is known of the rate of a run when it begins."""

    carried: CarriedRate
    energy: Energy | None  # of the first step at rate 1
    rate: float  # the rate that the run uses

    def __str__(self) -> str:
        energy = "" if self.energy is None else f", mean energy of the first step {self.energy.mean:.3g} at rate 1"
        return f"the run uses {self.rate:.3g}{energy}; carried: {self.carried}"

    def values(self) -> dict[str, Any]:
        """One entry per quantity, as trainers log them."""
        carried = self.carried
        found: dict[str, Any] = {
            "rule": carried.rule,
            "source_depth": carried.source_depth,
            "depth": carried.target_depth,
            "carried_rate": carried.rate,
            "rate": self.rate,
            "in_scope": carried.in_scope,
        }
        if carried.low is not None and carried.high is not None:
            found |= {"low": carried.low, "high": carried.high}
        if self.energy is not None:
            found |= {"mean_energy": self.energy.mean, "readout_energy": self.energy.readout}
        return {f"depthlr/{name}": value for name, value in found.items()}

    def warning(self) -> str | None:
        """Why the run's rate is in doubt: it is far from the carried one, or that one is outside its rule's scope.

        Far is outside the carried interval. Where there is none, it is a factor above `FAR`.
        """
        carried = self.carried
        of_rule = f"the rate carried to this model by the rule {carried.rule!r}, {carried.rate:.3g}."
        sentences = []
        if carried.low is None or carried.high is None:
            if not 1 / FAR <= self.rate / carried.rate <= FAR:
                sentences = [f"the learning rate {self.rate:.3g} is {self.rate / carried.rate:.3g} times {of_rule}"]
        elif not carried.low <= self.rate <= carried.high:
            interval = f"{carried.low:.3g} to {carried.high:.3g}, the {carried.coverage:.0%} interval"
            sentences = [f"the learning rate {self.rate:.3g} lies outside {interval} of {of_rule}"]
        elif math.isclose(self.rate, carried.rate / carried.factor) and not math.isclose(carried.factor, 1):
            sentences = [f"the learning rate {self.rate:.3g} is the source's: set it to {of_rule}"]
        if not carried.in_scope:
            sentences += [f"the carried rate is outside the scope of the rule {carried.rule!r}:", *carried.notes]
        return " ".join(sentences) or None
