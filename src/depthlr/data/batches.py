"""The order of batches, a function of the seed alone, and random batches that have something in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

from depthlr.errors import DepthlrError

MAX_CLASSES = 10  # with more classes, two small batches would have few classes in common
CLASS_SHARE = 0.5  # the fraction of an input's variance, or of its tokens, that its class determines
Batch = tuple[Any, Tensor]


def steps_per_epoch(examples: int, batch: int) -> int:
    """Return the number of complete batches in one pass over the data.

    Args:
        examples: the number of examples.
        batch: the batch size.
    """
    if not 1 <= batch <= examples:
        raise DepthlrError(f"A batch of {batch} cannot be drawn from {examples} examples: choose from 1 to {examples}.")
    return examples // batch


def batch_order(examples: int, batch: int, steps: int, seed: int) -> Tensor:
    """Return the indices of the examples of every step, int64 (steps, batch), on the CPU.

    Every epoch is a new shuffle, without its incomplete last batch. With the same seed, a longer order begins with the
    shorter one.

    Args:
        examples: the number of examples.
        batch: the batch size.
        steps: the number of steps.
        seed: the seed of the shuffles.
    """
    per_epoch = steps_per_epoch(examples, batch)
    generator = torch.Generator().manual_seed(seed)
    order = torch.empty(steps, batch, dtype=torch.int64)
    for start in range(0, steps, per_epoch):
        shuffled = torch.randperm(examples, generator=generator)
        epoch = order[start : start + per_epoch]
        epoch.copy_(shuffled[: epoch.numel()].view_as(epoch))
    return order


def random_batches(example: Any, readout: Sequence[int], size: int, count: int, seed: int) -> list[Batch]:
    """Return random batches of (inputs, target) that a model can learn from.

    Floating-point inputs are standard normal: half of the variance is a pattern of the example's class, half is noise.
    Integers are token ids up to the largest in the example, and half of them belong to the pattern of the class. Where
    the model scores every token, the target is a fixed function of the token. A tensor of ones is a mask and stays so.

    Args:
        example: an example input of the model, with tensors of shape (batch, ...).
        readout: the shape of the model's output, (batch, ..., classes).
        size: the batch size.
        count: the number of batches.
        seed: the seed of everything drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    leaves, structure = _pytree.tree_flatten(example)
    tokens = [
        index
        for index, leaf in enumerate(leaves)
        if _is_token(leaf) and leaf.dim() > 1 and tuple(leaf.shape[1:]) == tuple(readout[1:-1])
    ]
    top = max((int(leaves[index].max()) + 1 for index in tokens), default=1)
    kinds = torch.randperm(readout[-1], generator=generator)[:MAX_CLASSES]
    target_of_token = torch.randint(readout[-1], (top,), generator=generator)

    def batch() -> Batch:
        classes = kinds[torch.randint(len(kinds), (size,), generator=generator)]
        drawn = [_draw_like(leaf, classes, hash((seed, index)), generator) for index, leaf in enumerate(leaves)]
        inputs = _pytree.tree_unflatten(drawn, structure)
        if tokens:
            return inputs, target_of_token[drawn[tokens[0]].long()]
        positions = readout[1:-1]  # all of an example have its class
        return inputs, classes.view(-1, *[1] * len(positions)).expand(size, *positions).clone()

    return [batch() for _ in range(count)]


def _is_token(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and not leaf.is_floating_point() and not bool((leaf == 1).all())


def _draw_like(leaf: Any, classes: Tensor, seed: int, generator: torch.Generator) -> Any:
    """Draw inputs of these classes that look like one tensor of the example; the seed determines the patterns."""
    if not isinstance(leaf, Tensor):
        return leaf
    shape = (len(classes), *leaf.shape[1:])
    if leaf.is_floating_point():
        noise = torch.randn(shape, generator=generator)
        patterns = _class_patterns(classes, seed, lambda own: torch.randn(shape[1:], generator=own))
        return (CLASS_SHARE**0.5 * patterns + (1 - CLASS_SHARE) ** 0.5 * noise).to(leaf.dtype)
    if not _is_token(leaf):
        return torch.ones(shape, dtype=leaf.dtype)
    top = int(leaf.max()) + 1
    drawn = torch.randint(top, shape, generator=generator)
    patterns = _class_patterns(classes, seed, lambda own: torch.randint(top, shape[1:], generator=own))
    return torch.where(torch.rand(shape, generator=generator) < CLASS_SHARE, patterns, drawn).to(leaf.dtype)


def _class_patterns(classes: Tensor, seed: int, draw: Callable[[torch.Generator], Tensor]) -> Tensor:
    """Draw the pattern of each class, the same in every batch; only for classes that occur, since there may be many."""
    kinds, indices = torch.unique(classes, return_inverse=True)
    drawn = [draw(torch.Generator().manual_seed(abs(hash((seed, int(kind)))))) for kind in kinds]
    return torch.stack(drawn)[indices]
