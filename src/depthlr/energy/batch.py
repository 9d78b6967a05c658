"""What a batch is: inputs for the model and a target for the loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from depthlr.errors import DepthlrError
from depthlr.law.domain import whole
from depthlr.trace.depth import Depth, Units, effective_depth
from depthlr.trace.run import Arguments, arguments_of, check_runnable, random_states_kept

LossFn = Callable[[Any, Any], Tensor]
READING = 10**9  # far from the seeds of weights and dropout, or inputs that are drawn while read would resemble them


def batches_of(batches: Any, limit: int | None, usual: int, seed: int) -> list[Any]:
    """One batch, or the first `limit` of several; if that is None, all of a sequence and the first `usual` of a loader.

    What a loader draws, an order or a crop, is drawn by `seed`; random states are left as they were.
    """
    given = several(batches)
    if limit is not None:
        whole(limit, "limit", least=1)
    elif isinstance(given, Sequence):
        limit = len(given)
    found = read(opened(given), usual if limit is None else limit, seed)
    if not found:
        raise DepthlrError("batches is empty: at least one batch is needed for a gradient.")
    return found


def several(batches: Any) -> Iterable[Any]:
    """One batch as a list of it; several as they are."""
    if isinstance(batches, Mapping) or _is_pair(batches):
        return [batches]
    if isinstance(batches, str | Tensor) or not isinstance(batches, Iterable):
        raise DepthlrError(
            f"batches is a {type(batches).__name__}: pass a pair (inputs, target), a mapping, or an iterable of those."
        )
    return batches


def opened(batches: Iterable[Any]) -> Iterator[Any]:
    """Not before the first batch is read, since opening a DataLoader draws."""
    yield from batches


def counted(batches: Any, most: int, seed: int) -> int:
    """How many there are; where only reading them tells, up to `most`."""
    try:
        return len(batches)
    except (TypeError, NotImplementedError):  # a DataLoader of a stream has the method, and no length
        with random_states_kept(seed + READING):
            return sum(1 for _ in islice(batches, most))


def read(batches: Iterator[Any], count: int, seed: int) -> list[Any]:
    """The next `count`, fewer at the end; what reading draws is drawn by `seed`, and leaves no trace."""
    with random_states_kept(seed + READING):
        found = list(islice(batches, count))
    return [checked(batch) for batch in found]


def checked(batch: Any) -> Any:
    """The batch itself, if it is one."""
    if not (isinstance(batch, Mapping) or _is_pair(batch)):
        of = f" of {', '.join(type(part).__name__ for part in batch)}" if isinstance(batch, tuple | list) else ""
        raise DepthlrError(
            f"a batch is a pair (inputs, target) of tensors or a mapping, not a {type(batch).__name__}{of}."
        )
    return batch


def _is_pair(value: Any) -> bool:
    """(inputs, target) with inputs a tensor, a mapping, or a tuple of tensors."""
    if not (isinstance(value, tuple | list) and len(value) == 2):
        return False
    inputs, target = value
    if isinstance(inputs, tuple | list):
        # A list of two pairs is a sequence of batches; a tuple, or a list as loaders make it, is one of several inputs.
        return isinstance(value, tuple) | isinstance(target, Tensor) and all(isinstance(i, Tensor) for i in inputs)
    return isinstance(inputs, Tensor) or (isinstance(inputs, Mapping) and not isinstance(target, Mapping))


def split(batch: Any, device: torch.device) -> tuple[Arguments, Any]:
    """A batch as the model's arguments and the loss's target, on the model's device."""
    plain = dict(batch) if isinstance(batch, Mapping) else batch  # tokenizers return mappings of their own
    # Copied even where they lie on the device, because a model may write into its input.
    moved = torch.utils._pytree.tree_map_only(Tensor, lambda t: t.to(device, copy=True), plain)
    if isinstance(moved, Mapping):
        return arguments_of(moved), moved
    return arguments_of(moved[0]), moved[1]


def depth_on(model: nn.Module, batch: Any, units: Units = None) -> Depth:
    """The effective depth of a model, as this batch goes through it."""
    check_runnable(model)
    (positional, named), _ = split(batch, next(model.parameters()).device)
    return effective_depth(model, named or positional, units=units)
