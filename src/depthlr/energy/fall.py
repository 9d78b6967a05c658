"""The fall of the loss that one step promises to the batch it was learnt from, to first order.

F = -<g, d>        (at rate 1; g = gradient, d = the optimizer's step)

At the rate L / F, Polyak's step, it would be the whole loss L.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from depthlr.energy.batch import LossFn
from depthlr.energy.gradient import backward, check_measurable
from depthlr.energy.step import step_direction
from depthlr.trace.run import check_runnable, unwrap


def promised_fall(
    model: nn.Module, batch: Any, loss_fn: LossFn | None, optimizer: Any = "sgd", *, seed: int = 0
) -> float:
    """For the optimizer's real next step; below 0 where it promises a rise. Arguments are as in `persistent_energy`."""
    model = unwrap(model)
    check_runnable(model)
    parameters = dict(model.named_parameters())
    check_measurable(model, parameters)
    gradients = backward(model, parameters, batch, loss_fn, seed).gradients
    direction = step_direction(optimizer, model, gradients)
    return -float(torch.stack([_inner(g, direction[name]) for name, g in gradients.items()]).sum())


def _inner(gradient: Tensor, change: Tensor) -> Tensor:
    """The inner product, as a double; real and imaginary parts are coordinates."""
    dense = gradient.to_dense() if gradient.is_sparse else gradient
    first, second = (torch.view_as_real(t) if t.is_complex() else t for t in (dense, change))
    return (first.double() * second.double()).sum()
