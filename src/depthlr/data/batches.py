"""Which examples each step sees: a function of the seed, so that every rate of a seed sees the same ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

from depthlr.errors import DepthlrError


def steps_per_epoch(examples: int, batch: int) -> int:
    """Whole batches in one pass; what is left over waits for the next shuffle."""
    if not 1 <= batch <= examples:
        raise DepthlrError(f"A batch of {batch} cannot be drawn from {examples} examples: choose from 1 to {examples}.")
    return examples // batch


def batch_order(examples: int, batch: int, steps: int, seed: int) -> Tensor:
    """Indices int64 (steps, batch), on the CPU: every epoch is a fresh shuffle without its incomplete last batch.

    A longer order begins with the shorter one of the same seed.
    """
    if steps < 0:
        raise DepthlrError(f"An order of {steps} steps cannot be made: choose 0 or more.")
    per_epoch = steps_per_epoch(examples, batch)
    generator = torch.Generator().manual_seed(seed)
    order = torch.empty(steps, batch, dtype=torch.int64)
    for start in range(0, steps, per_epoch):
        shuffled = torch.randperm(examples, generator=generator)
        here = order[start : start + per_epoch]
        here.copy_(shuffled[: here.numel()].view_as(here))
    return order


MAX_CLASSES = 10  # classes that occur: of a thousand, few would occur twice, and batches would share none
CLASS_SHARE = 0.5  # of an input's variance, or of its tokens, that its class decides
Batch = tuple[Any, Tensor]


def random_batches(example: Any, readout: Sequence[int], size: int, count: int, seed: int) -> list[Batch]:
    """`count` batches of `size` inputs like the example's, and targets for a readout of shape (batch, ..., classes).

    Floating-point inputs are standard normal, each half its class's own pattern; of integers, up to the example's
    largest, half are their class's. Where every token is scored, its target is a fixed function of the token. A mask,
    integers that are all 1, stays one.
    """
    generator = torch.Generator().manual_seed(seed)
    leaves, structure = _pytree.tree_flatten(example)
    tokens = [
        place
        for place, leaf in enumerate(leaves)
        if _is_token(leaf) and leaf.dim() > 1 and tuple(leaf.shape[1:]) == tuple(readout[1:-1])
    ]
    top = max((int(leaves[place].max()) + 1 for place in tokens), default=1)
    kinds = torch.randperm(readout[-1], generator=generator)[:MAX_CLASSES]
    target_of_token = torch.randint(readout[-1], (top,), generator=generator)

    def batch() -> Batch:
        classes = kinds[torch.randint(len(kinds), (size,), generator=generator)]
        made = [_draw_like(leaf, classes, hash((seed, place)), generator) for place, leaf in enumerate(leaves)]
        inputs = _pytree.tree_unflatten(made, structure)
        if tokens:
            return inputs, target_of_token[made[tokens[0]].long()]
        return inputs, classes.view(-1, *[1] * (len(readout) - 2)).expand(size, *readout[1:-1]).clone()

    return [batch() for _ in range(count)]


def _is_token(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and not leaf.is_floating_point() and not bool((leaf == 1).all())


def _draw_like(leaf: Any, classes: Tensor, seed: int, generator: torch.Generator) -> Any:
    """Inputs of these classes, whose patterns are drawn by the seed."""
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
    """Of each class the same one in every batch; only those that occur are drawn, for there may be many."""
    kinds, places = torch.unique(classes, return_inverse=True)
    drawn = [draw(torch.Generator().manual_seed(abs(hash((seed, int(kind)))))) for kind in kinds]
    return torch.stack(drawn)[places]
