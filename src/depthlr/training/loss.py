"""The loss of one batch, or one sentence on why there is none: models and losses are other people's code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from depthlr.errors import DepthlrError, kind_and_message


def loss_on(model: nn.Module, inputs: Tensor, target: Tensor, loss_fn: Callable[[Any, Tensor], Tensor]) -> Tensor:
    """A scalar on which a step can be taken."""
    with told("the model failed on a batch"):
        output = model(inputs)
    with told("the loss failed on the model's output"):
        loss = loss_fn(output, target)
    if not isinstance(loss, Tensor):
        raise DepthlrError(f"the loss is of type {type(loss).__name__}: return one number as a tensor.")
    if loss.numel() != 1:
        raise DepthlrError(f"the loss has shape {tuple(loss.shape)}: reduce it to one number, such as its mean.")
    if not loss.requires_grad:
        raise DepthlrError("the loss does not depend on any trainable parameter: compute it from the model's output.")
    return loss.reshape(())


@contextmanager
def told(what: str) -> Iterator[None]:
    """Whatever goes wrong inside as one sentence, but for a GPU's want of memory, on which fewer lanes are tried."""
    try:
        yield
    except (DepthlrError, torch.cuda.OutOfMemoryError):
        raise
    except Exception as error:
        raise DepthlrError(f"{what} ({kind_and_message(error)}).") from error
