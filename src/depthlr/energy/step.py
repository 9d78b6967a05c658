"""The direction of an optimizer's real next step, without taking it.

The optimizer is copied onto float64 copies of the parameters and stepped there, so that the small difference between
new and old weights keeps its digits and nothing of the user's is touched.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer, SparseAdam

from depthlr.energy.given_optimizer import given_rate, group_moves, optimizers_of, step_rate
from depthlr.energy.tensors import dense
from depthlr.errors import DepthlrError, one_sentence_errors


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
    if any("lr" not in group for group in groups):
        raise DepthlrError("a parameter group of the optimizer has no lr, so there is no rate to measure at.")
    moved = [group for group in groups if group_moves(group) and moving & set(map(id, group["params"]))]
    if not moved:
        raise DepthlrError("every rate in the optimizer is 0: give it any positive rate (only ratios matter).")
    base = max(map(given_rate, moved))
    for group in groups:
        group["lr"] = step_rate(group)
    return base
