"""The optimizer that the user gives, and the direction of its real next step, without taking it.

An optimizer is given by its name, as an object, or by a factory. It is copied onto float64 copies of the parameters and
stepped there, so that the small difference between new and old weights keeps its digits and nothing of the user's is
touched.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer, SparseAdam

from depthlr.energy.tensors import dense
from depthlr.errors import DepthlrError, one_sentence_errors
from depthlr.optimizers import OPTIMIZERS, named_optimizers

OWN_FACTORY = "lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3)"
LARGEST_GROUP = "it is the rate of the parameter group with the largest rate; the others keep their ratios to it."


def optimizers_of(optimizer: Any, model: nn.Module) -> list[Optimizer]:
    """One optimizer or several, as a list.

    Args:
        optimizer: An optimizer of this model, a list of them, a name, an optimizer's class, or a factory: a function
            that takes the model and returns what `torch.optim` or Lightning's `configure_optimizers` would.
        model: The model whose own parameters a name, a class or a factory puts into groups.
    """
    if isinstance(optimizer, str):
        optimizer = named_optimizers(optimizer, model)
    made = _call_factory(optimizer, model) if fits_any_model(optimizer) else optimizer
    if isinstance(made, tuple) and len(made) == 2 and all(isinstance(part, list) for part in made):
        made = made[0]  # Lightning: optimizers and schedulers
    optimizers = []
    for one in made if isinstance(made, Sequence) else [made]:
        if isinstance(one, Mapping):  # Lightning: {"optimizer": ..., "lr_scheduler":}
            one = one.get("optimizer", one)
        optimizers.append(one)
        if not isinstance(one, Optimizer):
            raise DepthlrError(
                f"optimizer is a {type(one).__name__}: pass a torch.optim object, a list of them, a factory that takes "
                f"the model, or one of {', '.join(OPTIMIZERS)}."
            )
    return optimizers


def _call_factory(factory: Callable[[Any], Any], model: nn.Module) -> Any:
    """A class takes parameters, and any other factory takes the model, so that it can group parameters by name."""
    made_by = factory.func if isinstance(factory, partial) else factory
    of_class = isinstance(made_by, type) and issubclass(made_by, Optimizer)
    with one_sentence_errors(
        f"a factory is given the model, such as {OWN_FACTORY}; the optimizer could not be made for this model"
    ):
        return factory(list(model.parameters()) if of_class else model)


def fits_any_model(optimizer: Any) -> bool:
    """Is this a name or a callable, which give every model an optimizer of its own?"""
    return isinstance(optimizer, str) or (callable(optimizer) and not isinstance(optimizer, Optimizer))


def check_fits_any_model(optimizer: Any) -> None:
    """Raise if the optimizer is bound to one model. New models need optimizers of their own."""
    if not fits_any_model(optimizer):
        raise DepthlrError(f"the optimizer is bound to one model: pass a factory such as {OWN_FACTORY}.")


def has_stepped(optimizer: Optimizer) -> bool:
    """Has this optimizer taken a step? Adagrad has state before its first step, with step = 0."""
    return any(float(slots.get("step", 1)) > 0 for slots in optimizer.state.values() if slots)


def group_moves(group: Mapping[str, Any]) -> bool:
    """Does a step change any parameter of the group?"""
    return step_rate(group) > 0 and any(parameter.requires_grad for parameter in group["params"])


@dataclass(frozen=True)
class OwnRates:
    """The rates that the user's optimizers have of their own.

    Args:
        largest: The largest rate of a parameter group.
        groups: The class of an optimizer and the rate of a group over the largest, each pair once.
    """

    largest: float
    groups: tuple[tuple[str, float], ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """The rates over the largest: each once, to six digits, from large to small."""
        return tuple(sorted({ratio for _, ratio in self.groups}, reverse=True))

    @property
    def names(self) -> tuple[str, ...]:
        """The classes of the optimizers."""
        return tuple(dict.fromkeys(name for name, _ in self.groups))


def own_rates(optimizers: Iterable[Optimizer]) -> OwnRates:
    """The rates of the parameter groups that move.

    Args:
        optimizers: Those that step together.
    """
    moved = [(type(one).__name__, group) for one in optimizers for group in one.param_groups if group_moves(group)]
    largest = max((given_rate(group) for _, group in moved), default=1.0)
    groups = ((name, float(f"{step_rate(group) / largest:.6g}")) for name, group in moved)
    return OwnRates(largest, tuple(dict.fromkeys(groups)))


def largest_rate(optimizers: Iterable[Optimizer]) -> float:
    """The largest rate that the user gave to a parameter group, before a scheduler changed it."""
    return max(given_rate(group) for one in optimizers for group in one.param_groups)


def given_rate(group: Mapping[str, Any]) -> float:
    """The rate that the user gave to a parameter group, before a scheduler changed it; under OneCycleLR the peak."""
    if "lr" not in group:
        raise DepthlrError("a parameter group of the optimizer has no lr, so its rate is not known.")
    return float(group.get("max_lr", group.get("initial_lr", group["lr"])))


def step_rate(group: Mapping[str, Any]) -> float:
    """The rate at which a parameter group steps."""
    # timm keeps one lr in all groups, and its schedulers multiply it by each group's lr_scale (layer-wise decay).
    return given_rate(group) * float(group.get("lr_scale", 1.0))


def step_direction(optimizer: Any, model: nn.Module, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The change of every parameter in one step at base rate 1.

    The base rate is the largest rate of the groups that a step changes. The others keep their ratio to it. If a
    scheduler changed a group's rate, its `initial_lr` counts instead, so warm-up has no effect. timm's `lr_scale`
    multiplies the rate.

    Args:
        optimizer: What `optimizers_of` takes.
        model: The model.
        gradients: By parameter name.
    """
    parameters = dict(model.named_parameters())
    before = {n: _precise(parameters[n].detach()) for n in gradients}
    copies = {}
    for name, parameter in parameters.items():
        value = before.get(name, parameter.detach())
        copies[name] = nn.Parameter(value.clone(), requires_grad=parameter.requires_grad)
    optimizers = _copy_optimizers(optimizers_of(optimizer, model), parameters, copies)
    needs_sparse = {
        id(p) for one in optimizers if isinstance(one, SparseAdam) for g in one.param_groups for p in g["params"]
    }
    for name, gradient in gradients.items():
        wide = dense(gradient).to(copies[name].dtype)
        copies[name].grad = wide.to_sparse(1) if gradient.is_sparse and id(copies[name]) in needs_sparse else wide
    base = _use_initial_rates(optimizers, {id(copies[name]) for name in gradients})
    for one in optimizers:
        with one_sentence_errors(f"{type(one).__name__} cannot take a step on these gradients"):
            one.step()
    return {n: ((copies[n].detach() - old) / base).to(parameters[n].dtype) for n, old in before.items()}


def _precise(tensor: Tensor) -> Tensor:
    if tensor.device.type == "mps":
        return tensor if tensor.is_complex() else tensor.float()
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _copy_optimizers(
    optimizers: Sequence[Optimizer], parameters: Mapping[str, nn.Parameter], copies: Mapping[str, nn.Parameter]
) -> list[Optimizer]:
    """Copies of the optimizers, holding the copied parameters."""
    held = {id(p) for one in optimizers for group in one.param_groups for p in group["params"]}
    if not held & {id(parameters[n]) for n in copies}:
        raise DepthlrError("the optimizer holds none of the model's parameters: build it from model.parameters().")
    _warn_of_hooks(optimizers, parameters.values())
    memo: dict[int, Any] = {id(parameters[n]): c for n, c in copies.items()}
    return [_copy_optimizer(one, memo) for one in optimizers]


def _warn_of_hooks(optimizers: Sequence[Optimizer], parameters: Iterable[nn.Parameter]) -> None:
    """Warn that hooks are not measured. They are not copied, because they may write into the user's gradients."""
    steps = [getattr(one, "_optimizer_step_pre_hooks", None) for one in optimizers]
    gradients = [
        getattr(p, kind, None) for p in parameters for kind in ("_backward_hooks", "_post_accumulate_grad_hooks")
    ]
    if any(steps) or any(gradients):
        warnings.warn(
            "hooks on the optimizer's step or on parameters are not run where a step is measured: if they change "
            "gradients (clipping, masks), do that in the optimizer's own step().",
            stacklevel=2,
        )


def _copy_optimizer(optimizer: Optimizer, memo: dict[int, Any]) -> Optimizer:
    with one_sentence_errors(f"{type(optimizer).__name__} cannot be copied"):
        clone = copy.deepcopy(optimizer, memo)
        # Optimizer pickles its state and groups alone; what a subclass keeps beside them comes along here. A
        # scheduler's wrapper around step() stays behind: it is bound to the original.
        for name, value in vars(optimizer).items():
            if name not in vars(clone) and name != "step" and "hook" not in name:
                setattr(clone, name, copy.deepcopy(value, memo))
    for parameter, slots in clone.state.items():
        for name, value in slots.items():
            if isinstance(value, Tensor) and value.is_floating_point() and name != "step":
                slots[name] = value.to(parameter.dtype)  # moments match the float64 copies
    return clone


def _use_initial_rates(optimizers: Sequence[Optimizer], moving: set[int]) -> float:
    """Undo schedulers, set every group to the rate it steps at, and return the base rate."""
    groups = [group for one in optimizers for group in one.param_groups]
    moved = [group for group in groups if group_moves(group) and moving & set(map(id, group["params"]))]
    if not moved:
        raise DepthlrError("every rate in the optimizer is 0: give it any positive rate (only ratios matter).")
    base = max(map(given_rate, moved))
    for group in groups:
        group["lr"] = step_rate(group)
    return base
