"""A model named on the command line, initialised, with a batch and a loss to measure it on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthlr.data.batch import digits_batch
from depthlr.errors import DepthlrError
from depthlr.init.plan import apply_plan, init_plan
from depthlr.models.build import build
from depthlr.trace.record import readout_of
from depthlr.trace.run import arguments_of, cannot_run


class Data(StrEnum):
    """What a model is measured on."""

    random = "random"  # standard normal inputs or uniform ids, random targets
    digits = "digits"  # the embedded 8x8 digits


@dataclass(frozen=True)
class Task:
    """`build()` gives the model under the current seed; batch and loss go with it."""

    build: Callable[[], nn.Module]
    batch: tuple[Any, Tensor]
    loss_fn: Callable[[Any, Tensor], Tensor]


def task(spec: str, data: Data, size: int, *, input: str | None = None, own_init: bool = False, seed: int = 0) -> Task:
    """A model on `size` examples; with `own_init` it keeps the initialisation its builder gave it."""
    if size < 1:
        raise DepthlrError(f"A batch of {size} examples has no gradient: choose at least 1.")
    if data is Data.digits and input is not None:
        raise DepthlrError("--input and --data digits contradict each other: the digits are 1x8x8.")
    if data is Data.digits:
        images, labels = digits_batch(size, seed)
        model, _ = build(spec, input="1x8x8")
        inputs: Any = (images,)
        targets = labels
    else:
        model, example = build(spec, input=input)
        inputs, targets = _random_batch(model, example, size, seed)
    plan = None if own_init else init_plan(model, inputs)

    def built() -> nn.Module:
        fresh, _ = build(spec, input="1x8x8" if data is Data.digits else input)
        if plan is not None:
            apply_plan(fresh, plan)
        return fresh

    return Task(built, (inputs, targets), classification_loss)


def classification_loss(output: Any, target: Tensor) -> Tensor:
    """Mean cross-entropy of the readout, the classes along its last dimension."""
    logits = readout_of(output)
    return F.cross_entropy(logits.flatten(0, -2), target.flatten())


def _random_batch(model: nn.Module, example: Any, size: int, seed: int) -> tuple[Any, Tensor]:
    """Inputs like the example's, `size` of them, and random classes for every prediction the model makes."""
    generator = torch.Generator().manual_seed(seed)

    def more(tensor: Tensor) -> Tensor:
        shape = (size, *tensor.shape[1:])
        if tensor.is_floating_point():
            return torch.randn(shape, generator=generator, dtype=tensor.dtype)
        return torch.randint(int(tensor.max()) + 1, shape, generator=generator, dtype=tensor.dtype)

    inputs = torch.utils._pytree.tree_map_only(Tensor, more, example)
    args, kwargs = arguments_of(inputs)
    training = model.training
    try:
        with torch.no_grad():
            logits = readout_of(model.eval()(*args, **kwargs))
    except DepthlrError:
        raise
    except Exception as error:
        raise cannot_run(error) from error
    finally:
        model.train(training)
    if logits.dim() > 3 or logits.shape[-1] < 2:
        raise DepthlrError(
            f"the readout has shape {tuple(logits.shape)}: measuring takes class scores, (batch, classes) or (batch, "
            "tokens, classes) with two classes or more; from Python, update_energy takes any loss."
        )
    if logits.dim() < 2:
        raise DepthlrError(
            f"the readout has shape {tuple(logits.shape)}: measuring needs class scores along a last dimension; from "
            "Python, update_energy takes any loss."
        )
    return inputs, torch.randint(logits.shape[-1], logits.shape[:-1], generator=generator)
