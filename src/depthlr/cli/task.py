"""A model named on the command line, initialised, with batches and a loss to measure it on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from depthlr.cli.options import Data
from depthlr.cli.output import print_note
from depthlr.data.batch import digits_batches
from depthlr.data.digits import digit_set
from depthlr.data.random_batches import random_batches
from depthlr.energy.shares import LEARNT_FROM
from depthlr.errors import DepthlrError, kind_and_message
from depthlr.init.plan import apply_plan, init_plan
from depthlr.models.build import build
from depthlr.models.spec import parse_spec
from depthlr.trace.record import readout_of
from depthlr.trace.run import arguments_of, cannot_run
from depthlr.training.task import mean_cross_entropy

DIGIT = "1x8x8"
MEMORY = 2**30  # bytes of random batches; beyond it initialisations share them
Batches = list[tuple[Any, Tensor]]


@dataclass(frozen=True)
class Task:
    """`build()` gives the model under the current seed; batches and loss go with it."""

    build: Callable[[], nn.Module]
    batches: Batches
    loss_fn: Callable[[Any, Tensor], Tensor]
    redrawn: bool  # are these not the weights that the user's own code drew?


def note_redrawn(*given: Task) -> None:
    """Say once that what is measured starts otherwise than the user's model does."""
    if any(one.redrawn for one in given):
        print_note("note: weights were drawn anew by init_; --own-init keeps those that the model comes with.")


def task(
    spec: str,
    data: Data,
    size: int,
    *,
    input: str | None = None,
    own_init: bool = False,
    seed: int = 0,
    draws: int = 1,
    batches: Batches | None = None,
) -> Task:
    """A model on batches of `size` examples, so many that each of `draws` initialisations has its own.

    With `own_init` it keeps the initialisation its builder gave it. `batches` are those of another task, to share.
    """
    if size < 1:
        raise DepthlrError(f"A batch of {size} examples has no gradient: choose at least 1.")
    if data is Data.digits and input is not None:
        raise DepthlrError(f"--input and --data digits contradict each other: the digits are {DIGIT}.")
    shape = DIGIT if data is Data.digits else input
    model, example = build(spec, input=shape)
    if batches is None:
        batches = _digits(size, seed, draws) if data is Data.digits else _random(model, example, size, seed, draws)
    plan = None if own_init else init_plan(model, batches[0][0])

    def built() -> nn.Module:
        fresh, _ = build(spec, input=shape)
        if plan is not None:
            apply_plan(fresh, plan)
        return fresh

    return Task(built, batches, mean_cross_entropy, redrawn=not own_init and parse_spec(spec).family != "zoo")


def _digits(size: int, seed: int, draws: int) -> Batches:
    # No more than one shuffle holds, if that is enough: the batch that is seen must not have been learnt from.
    count = min(LEARNT_FROM + 1, max(3, len(digit_set()) // size))
    shuffles = [digits_batches(size, count, seed + draw) for draw in range(draws)]
    return [((x,), y) for shuffle in shuffles for x, y in shuffle]


def _random(model: nn.Module, example: Any, size: int, seed: int, draws: int) -> Batches:
    sets = draws if _bytes(example, size) * draws * (LEARNT_FROM + 1) < MEMORY else 1
    try:
        return random_batches(example, _readout_shape(model, example), size, sets * (LEARNT_FROM + 1), seed)
    except (RuntimeError, MemoryError, OverflowError, TypeError) as error:  # as torch says what it cannot hold
        raise DepthlrError(
            f"Batches of {size} examples cannot be made ({kind_and_message(error)}): choose a smaller --batch."
        ) from error


def _bytes(example: Any, size: int) -> float:
    """Of a batch."""
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(example) if isinstance(leaf, Tensor)]
    return sum(size * leaf.nbytes / leaf.shape[0] for leaf in leaves if leaf.dim())


def _readout_shape(model: nn.Module, example: Any) -> tuple[int, ...]:
    """(batch, classes) or (batch, tokens, classes)."""
    args, kwargs = arguments_of(example)
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
    return tuple(logits.shape)
