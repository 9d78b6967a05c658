"""What the trainers share: the batches of one optimizer step, the answer for a run, and one answer for all ranks."""

from __future__ import annotations

import contextlib
import copy
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

from depthlr.energy.energy import Energy, update_energy
from depthlr.energy.initializations import build_model
from depthlr.errors import DepthlrError
from depthlr.law.carried_rate import CarriedRate
from depthlr.transfer.rules import Recipe

T = TypeVar("T")
FAR = 3.0  # a rate in use that is farther than this factor from a carried one without interval is in doubt
RATES = ("lr", "initial_lr", "max_lr", "min_lr")  # entries of a parameter group that hold a rate


@dataclass(frozen=True)
class StepBatches:
    """The batches that one optimizer step sees: micro-batches of a loader joined along their first dimension.

    Every batch is `{"batch": ...}`, the argument of a module that computes the trainer's own loss.

    Args:
        loader: Returns a new loader. It is called for each pass, so that a shuffled order is drawn anew.
        micro_batches: How many of its batches one optimizer step sees, over all ranks.
        examples: How many examples one optimizer step sees, for the reader; None if it is not known.
    """

    loader: Callable[[], Iterable[Any]] = field(repr=False)
    micro_batches: int = 1
    examples: int | None = None

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

    try:
        return tree_map(join, *batches)
    except (RuntimeError, ValueError, TypeError) as error:
        raise DepthlrError(
            "the micro-batches of one optimizer step have different shapes and cannot be joined: pad them to one "
            "length, or pass a loader whose batch is what one optimizer step sees."
        ) from error


@contextlib.contextmanager
def autocast_to(device: torch.device, dtype: torch.dtype | None) -> Iterator[None]:
    """Mixed precision as a trainer sets it; nothing if `dtype` is None.

    Weights are cast anew at every use: a cached cast would not carry the tangent of a forward-mode pass.

    Args:
        device: Where the model runs.
        dtype: The type of half precision.
    """
    if dtype is None:
        yield
        return
    with torch.autocast(device.type, dtype, cache_enabled=False):
        yield


def on_all_ranks(measure: Callable[[], T]) -> T:
    """What `measure` returns on rank 0, on every rank.

    Every rank measures, since the model may use collective operations. Rounding may differ between devices, so the
    answer of rank 0 is broadcast.

    Args:
        measure: Measures; a `DepthlrError` of rank 0 is raised on every rank.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return measure()
    found: T | None = None
    failed: DepthlrError | None = None
    try:
        found = measure()
    except DepthlrError as error:
        failed = error
    answers: list[Any] = [(found, failed)]
    distributed.broadcast_object_list(answers, src=0)
    found, failed_on_first = answers[0]
    if failed is not None or failed_on_first is not None:
        raise failed or failed_on_first
    return found


def world_size() -> int:
    """The number of processes that train together."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


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


def report_on(
    carry: Callable[[], CarriedRate], target: Recipe, rate: float | None = None, *, energies: bool = True
) -> RunReport:
    """Carry a rate to the recipe of a run, and measure its first step. All ranks agree.

    Args:
        carry: Returns the carried rate.
        target: The recipe of the run.
        rate: The rate that the run uses; the carried one if None.
        energies: Also measure the update energy of the run's first step.
    """

    def measure() -> RunReport:
        carried = carry()
        energy = None
        if energies:
            build: Any = target.build
            model = build if isinstance(build, torch.nn.Module) else build_model(build, 0)
            energy = update_energy(model, target.batches, target.loss_fn, target.optimizer)
        return RunReport(carried, energy, carried.rate if rate is None else rate)

    return on_all_ranks(measure)


def peak_rate(optimizers: Iterable[Optimizer], schedulers: Iterable[Any] = ()) -> float:
    """The largest rate of the groups, or the peak if a scheduler such as OneCycleLR keeps one.

    Args:
        optimizers: Those of the run, before its first step.
        schedulers: Theirs.
    """
    rates = [
        group.get("max_lr", group.get("initial_lr", group["lr"])) for one in optimizers for group in one.param_groups
    ]
    if not rates:
        raise DepthlrError("the run has no optimizer, so there is no rate to set: let configure_optimizers return it.")
    peaks = (rate for scheduler in schedulers for rate in getattr(scheduler, "max_lrs", ()))  # of CyclicLR
    return float(max([*rates, *peaks]))


def scale_rates(optimizers: Iterable[Optimizer], schedulers: Iterable[Any], factor: float) -> None:
    """Multiply every rate of optimizers and their schedulers, so that the ratios of groups are kept.

    Args:
        optimizers: Their parameter groups are changed in place.
        schedulers: Those that read the rates they began with (`base_lrs`).
        factor: What every rate is multiplied by.
    """
    for one in optimizers:
        for group in one.param_groups:
            for name in RATES:
                if name in group:
                    group[name] = group[name] * factor
    for scheduler in schedulers:
        scale_rates((), getattr(scheduler, "_schedulers", ()), factor)  # of SequentialLR and ChainedScheduler
        for name in ("base_lrs", "max_lrs", "min_lrs", "_last_lr"):
            if isinstance(held := getattr(scheduler, name, None), list):
                setattr(scheduler, name, [rate * factor for rate in held])


def unscaled(optimizers: Sequence[Optimizer], schedulers: Sequence[Any], factor: float) -> list[str]:
    """The classes of schedulers whose next rates `scale_rates` would not multiply: they hold a rate of their own.

    Args:
        optimizers: They are copied, and not changed.
        schedulers: The same.
        factor: What every rate would be multiplied by.
    """
    parameters = (p for one in optimizers for group in one.param_groups for p in group["params"])
    memo = {id(parameter): parameter for parameter in parameters}
    found = []
    for scheduler in schedulers:
        try:
            plain, scaled = (copy.deepcopy(scheduler, dict(memo)) for _ in range(2))
            scale_rates([scaled.optimizer], [scaled], factor)
            rates, wanted = _next_rates(scaled), [rate * factor for rate in _next_rates(plain)]
        except Exception:  # it cannot be copied, or its step takes a metric, as that of ReduceLROnPlateau
            continue
        if not all(map(partial(math.isclose, rel_tol=1e-6, abs_tol=1e-12), rates, wanted)):
            found.append(type(scheduler).__name__)
    return found


def _next_rates(scheduler: Any) -> list[float]:
    rates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no optimizer steps here
        for _ in range(3):
            scheduler.step()
            rates += [float(group["lr"]) for group in scheduler.optimizer.param_groups]
    return rates
