"""The fall of the loss that one step promises to the batch it was learnt from, to first order.

F = -<g, d>        (at rate 1; g = gradient, d = the optimizer's step)

At the rate L / F, Polyak's step, it would be the whole loss L.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from depthlr.energy.batch import LossFn
from depthlr.energy.gradient import backward, check_measurable
from depthlr.energy.step import step_direction
from depthlr.trace.run import check_runnable
from depthlr.trace.unwrap import unwrap


def promised_fall(model: nn.Module, batch: Any, loss_fn: LossFn, optimizer: Any = "sgd", *, seed: int = 0) -> float:
    """For the optimizer's real next step; below 0 where it promises a rise. Arguments are as in `persistent_energy`."""
    model = unwrap(model)
    check_runnable(model)
    parameters = dict(model.named_parameters())
    check_measurable(model, parameters)
    gradients = backward(model, parameters, batch, loss_fn, seed).gradients
    dense = {name: (g.to_dense() if g.is_sparse else g).double() for name, g in gradients.items()}
    direction = step_direction(optimizer, parameters, gradients)
    return -float(torch.stack([(g * direction[name].double()).sum() for name, g in dense.items()]).sum())
