"""The batches that a measurement uses: dividing them by seed, reading them, and splitting one into inputs and target.

A batch holds inputs for the model and a target for the loss. Persistent energy needs three or more batches, and each
seed gets its own batches if there are enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any

import torch
from torch import Tensor, nn

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.random_states import preserve_random_states
from depthlr.trace.interface import Arguments, arguments_of, check_runnable

GRADIENT_BATCHES = 16  # batches for gradients; fewer add noise but no bias
PERSISTENT_BATCHES = GRADIENT_BATCHES + 1  # default number of batches from a loader
# Added to a seed when batches are read. Data that is drawn then must not repeat the numbers of weights and dropout.
READING_SEED = 10**9


@dataclass(frozen=True)
class SeedBatches:
    """The batches of several seeds."""

    first: Any  # first batch of the first seed
    size: int  # batches of one seed
    per_seed: Iterator[list[Any]]  # one list per seed, read lazily: all together may not fit in memory


def batches_for_seeds(batches: Any, seeds: int, limit: int | None, seed: int) -> SeedBatches:
    """Give every seed its own `limit` batches if there are enough. Otherwise all seeds use the first `limit`.

    Noise from batches that seeds share does not average out.

    Args:
        batches: A sequence of batches or a loader.
        seeds: The number of seeds.
        limit: Batches per seed. If None: all of a sequence, `PERSISTENT_BATCHES` per seed from a loader.
        seed: Seeds what a loader draws.
    """
    if seeds == 1:
        only = read_three_or_more(batches, limit, seed)
        return SeedBatches(only[0], len(only), iter([only]))
    given = _as_iterable(batches)
    use_all = limit is None and isinstance(given, Sequence)
    size = PERSISTENT_BATCHES if limit is None else check.count("limit", limit, least=3)
    if isinstance(given, Iterator):  # it can be read only once, so it is stored to be counted
        given = _read_next(given, size * seeds, seed)
    count = _count_batches(given, size * seeds, seed)
    if use_all:
        size = count // seeds if count >= size * seeds else count
    source = _iterate(given)
    start = _require_three(_read_next(source, size, seed))
    if count < size * seeds:
        return SeedBatches(start[0], len(start), repeat(start, seeds))
    # Keep no reference to a share, so that its memory is free before the next one is read.
    rest = (_read_next(source, size, seed + place) for place in range(1, seeds))
    return SeedBatches(start[0], size, chain(iter([start]), rest))


def _count_batches(batches: Any, most: int, seed: int) -> int:
    """The number of batches.

    Args:
        batches: A sequence of batches or a loader. One without a length is read and counted.
        most: Where counting stops.
        seed: Seeds what a loader draws.
    """
    try:
        return len(batches)
    except (TypeError, NotImplementedError):  # a DataLoader of a stream has the method, and no length
        with preserve_random_states(seed + READING_SEED):
            return sum(1 for _ in islice(batches, most))


def read_three_or_more(batches: Any, limit: int | None, seed: int) -> list[Any]:
    """Read three or more batches.

    Args:
        batches: A sequence of batches or a loader.
        limit: The number of batches. If None: all of a sequence, `PERSISTENT_BATCHES` of a loader.
        seed: Seeds what a loader draws.

    Raises:
        DepthlrError: If there are fewer than three.
    """
    if limit is not None:
        check.count("limit", limit, least=3)
    return _require_three(read_batches(batches, limit, PERSISTENT_BATCHES, seed))


def _require_three(found: list[Any]) -> list[Any]:
    if len(found) < 3:
        held = f"holds {len(found)}" if found else "is empty"
        raise DepthlrError(
            f"batches {held}, and a measurement takes three or more; {PERSISTENT_BATCHES} are a good number."
        )
    return found


def read_batches(batches: Any, limit: int | None, loader_default: int, seed: int) -> list[Any]:
    """Read batches into a list. Random states are restored afterwards.

    Args:
        batches: One batch, a sequence of batches, or a loader.
        limit: The number of batches to read. If None: all of a sequence, the first `loader_default` of a loader.
        loader_default: The default number of batches from a loader.
        seed: Seeds what a loader draws, such as an order or a crop.
    """
    given = _as_iterable(batches)
    if limit is not None:
        check.count("limit", limit, least=1)
    elif isinstance(given, Sequence):
        limit = len(given)
    found = _read_next(_iterate(given), loader_default if limit is None else limit, seed)
    if not found:
        raise DepthlrError("batches is empty: at least one batch is needed for a gradient.")
    return found


def _as_iterable(batches: Any) -> Iterable[Any]:
    """Wrap a single batch in a list. Several batches are returned unchanged."""
    if isinstance(batches, Mapping) or _is_pair(batches):
        return [batches]
    if isinstance(batches, str | Tensor) or not isinstance(batches, Iterable):
        raise DepthlrError(
            f"batches is a {type(batches).__name__}: pass a pair (inputs, target), a mapping, or an iterable of those."
        )
    return batches


def _iterate(batches: Iterable[Any]) -> Iterator[Any]:
    """Create the iterator when the first batch is read, since a DataLoader draws random numbers then."""
    yield from batches


def _read_next(batches: Iterator[Any], count: int, seed: int) -> list[Any]:
    """Read the next batches, or fewer at the end. Random states are restored.

    Args:
        batches: The batches that were not read yet.
        count: How many are read.
        seed: Seeds what a loader draws.
    """
    with preserve_random_states(seed + READING_SEED):
        found = list(islice(batches, count))
    return [check_batch(batch) for batch in found]


def check_batch(batch: Any) -> Any:
    """Return the batch, or raise if it is not one."""
    if not (isinstance(batch, Mapping) or _is_pair(batch)):
        of = ""
        if isinstance(batch, tuple | list):
            of = f" of {', '.join(type(part).__name__ for part in batch)}"
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
        # `[(x, y), (x, y)]` is a list of two batches. `((x1, x2), y)` is one batch with two inputs; a loader may also
        # give it as the list `[(x1, x2), y]`.
        is_one_batch = isinstance(value, tuple) or isinstance(target, Tensor)
        return is_one_batch and all(isinstance(i, Tensor) for i in inputs)
    return isinstance(inputs, Tensor) or (isinstance(inputs, Mapping) and not isinstance(target, Mapping))


def split_batch(batch: Any, device: torch.device) -> tuple[Arguments, Any]:
    """Split a batch into copies of the model's arguments and of the loss's target.

    Args:
        batch: A pair (inputs, target) or a mapping. A mapping is the target too.
        device: Where the copies are.
    """
    plain = dict(batch) if isinstance(batch, Mapping) else batch  # tokenizers return mappings of their own
    # Copy even on the same device, because a model may write into its input.
    copied = torch.utils._pytree.tree_map_only(Tensor, lambda t: t.to(device, copy=True), plain)
    if isinstance(copied, Mapping):
        return arguments_of(copied), copied
    return arguments_of(copied[0]), copied[1]


def inputs_of(model: nn.Module, batch: Any) -> Any:
    """The inputs of a batch as an example for tracing, on the model's device.

    Args:
        model: The model.
        batch: One batch.
    """
    check_runnable(model)
    (positional, named), _ = split_batch(batch, next(model.parameters()).device)
    return named or positional
