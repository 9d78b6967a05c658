"""The batches and the initialisations that a measurement uses.

A batch holds inputs for the model and a target for the loss. Persistent energy needs three or more batches, and each
seed gets its own batches if there are enough. Each seed also draws its own initialisation of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any

import torch
from torch import Tensor, nn

from depthlr import check
from depthlr.energy.step import OWN_FACTORY, is_factory
from depthlr.errors import DepthlrError, kind_and_message
from depthlr.random_states import preserve_random_states
from depthlr.trace.depth import Depth, Units, effective_depth
from depthlr.trace.run import Arguments, arguments_of, check_runnable

Build = Callable[[], nn.Module]
GRADIENT_BATCHES = 16  # batches for gradients; fewer add noise but no bias
PERSISTENT_BATCHES = GRADIENT_BATCHES + 1  # default number of batches from a loader
SAME_WEIGHTS_NOTE = (
    "a builder gives the same model every time, so nothing is known of its scatter: let it draw its weights anew."
)
EVAL_MODE_NOTE = "in eval mode dropout and BatchNorm were measured as in evaluation: call train() first."
# Added to a seed when batches are read. Data that is drawn then must not repeat the numbers of weights and dropout.
READING_SEED = 10**9


def batches_of(batches: Any, limit: int | None, usual: int, seed: int) -> list[Any]:
    """Read batches into a list. Random states are restored afterwards.

    Args:
        batches: One batch, a sequence of batches, or a loader.
        limit: The number of batches to read. If None: all of a sequence, the first `usual` of a loader.
        usual: The default number of batches from a loader.
        seed: Seeds what a loader draws, such as an order or a crop.
    """
    given = _as_iterable(batches)
    if limit is not None:
        check.count("limit", limit, least=1)
    elif isinstance(given, Sequence):
        limit = len(given)
    found = read_batches(_iterate(given), usual if limit is None else limit, seed)
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


def read_batches(batches: Iterator[Any], count: int, seed: int) -> list[Any]:
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
        # A list of two pairs is a sequence of batches. A tuple, or a loader's list, is one batch of several inputs.
        return isinstance(value, tuple) | isinstance(target, Tensor) and all(isinstance(i, Tensor) for i in inputs)
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


def depth_on(model: nn.Module, batch: Any, units: Units = None) -> Depth:
    """The effective depth of a model on the inputs of a batch.

    Args:
        model: The model.
        batch: One batch.
        units: As in `effective_depth`.
    """
    return effective_depth(model, inputs_of(model, batch), units=units)


def inputs_of(model: nn.Module, batch: Any) -> Any:
    """The inputs of a batch as an example for tracing, on the model's device.

    Args:
        model: The model.
        batch: One batch.
    """
    check_runnable(model)
    (positional, named), _ = split_batch(batch, next(model.parameters()).device)
    return named or positional


def checked_batches(batches: Any, limit: int | None, seed: int) -> list[Any]:
    """Read three or more batches.

    Args:
        batches: A sequence of batches or a loader.
        limit: The number of batches. If None: all of a sequence, `PERSISTENT_BATCHES` of a loader.
        seed: Seeds what a loader draws.

    Raises:
        DepthlrError: If there are fewer than three.
    """
    _check_limit(limit)
    return _require_three(batches_of(batches, limit, PERSISTENT_BATCHES, seed))


def _check_limit(limit: int | None) -> None:
    if limit is not None and check.count("limit", limit, least=1) < 3:
        raise DepthlrError(f"limit is {limit}, and telling what batches agree on takes three or more.")


def _require_three(found: list[Any]) -> list[Any]:
    if len(found) < 3:
        held = f"holds {len(found)}" if found else "is empty"
        raise DepthlrError(
            f"batches {held}, and telling what batches agree on takes three or more: two to learn from, one to see the "
            f"step on; {PERSISTENT_BATCHES} are a good number."
        )
    return found


@dataclass(frozen=True)
class SeedBatches:
    """The batches of several seeds."""

    first: Any  # first batch of the first seed
    size: int  # batches of one seed
    each: Iterator[list[Any]]  # one list per seed, read lazily: all together may not fit in memory


def batches_by_seed(batches: Any, seeds: int, limit: int | None, seed: int) -> SeedBatches:
    """Give every seed its own `limit` batches if there are enough. Otherwise all seeds use the first `limit`.

    Noise from batches that seeds share does not average out.

    Args:
        batches: A sequence of batches or a loader.
        seeds: The number of seeds.
        limit: Batches per seed. If None: all of a sequence, `PERSISTENT_BATCHES` per seed from a loader.
        seed: Seeds what a loader draws.
    """
    if seeds == 1:
        only = checked_batches(batches, limit, seed)
        return SeedBatches(only[0], len(only), iter([only]))
    _check_limit(limit)
    given = _as_iterable(batches)
    use_all = limit is None and isinstance(given, Sequence)
    each = PERSISTENT_BATCHES if limit is None else limit
    if isinstance(given, Iterator):  # it can be read only once, so it is stored to be counted
        given = read_batches(given, each * seeds, seed)
    count = _count_batches(given, each * seeds, seed)
    if use_all:
        each = count // seeds if count >= each * seeds else count
    source = _iterate(given)
    start = _require_three(read_batches(source, each, seed))
    if count < each * seeds:
        return SeedBatches(start[0], len(start), repeat(start, seeds))
    # Keep no reference to a share, so that its memory is free before the next one is read.
    rest = (_require_full_share(read_batches(source, each, seed + place), each) for place in range(1, seeds))
    return SeedBatches(start[0], each, chain(iter([start]), rest))


def _require_full_share(found: list[Any], each: int) -> list[Any]:
    if len(found) < each:
        raise DepthlrError("batches ended before its length said so: pass a list of them.")
    return found


def check_draws(seeds: Sequence[int], optimizer: Any) -> None:
    """Raise unless several new models can be measured.

    Args:
        seeds: One model is built for each.
        optimizer: A factory or a name, since every model is new.
    """
    if not isinstance(seeds, Sequence):
        raise DepthlrError(f"seeds is {seeds!r}: name them, such as range(3).")
    if not seeds:
        raise DepthlrError("seeds is empty: name at least one.")
    for seed in seeds:
        check.seed("A seed", seed)
    if not is_factory(optimizer):
        raise DepthlrError(f"the optimizer is bound to one model: pass a factory such as {OWN_FACTORY}.")


def draws_new_weights(build: Build) -> bool:
    """Does `build()` return different weights for different seeds?"""
    first, second = (list(model.parameters()) for model in draw_models(build, (0, 1)))
    return len(first) != len(second) or not all(map(torch.equal, first, second))  # equal tensors have equal shapes


def draw_models(build: Build, seeds: Sequence[int]) -> Iterator[nn.Module]:
    """Yield `build()` under each seed. Random states are restored.

    Args:
        build: Returns a new model.
        seeds: One model is built for each.
    """
    for seed in seeds:
        yield build_model(build, int(seed))  # no variable: it would keep a model alive while the next one is built


def build_model(build: Build, seed: int | None = None) -> nn.Module:
    """Call `build()` under a seed. Random states are restored.

    Args:
        build: Returns a model.
        seed: Seeds all random generators, if given.

    Raises:
        DepthlrError: `build` fails or returns no model.
    """
    if isinstance(build, nn.Module) or not callable(build):
        raise DepthlrError(
            f"a function that builds the model is wanted, not a {type(build).__name__}: write lambda: ...."
        )
    try:
        with preserve_random_states(seed):  # the caller draws from its own states
            model = build()
    except DepthlrError:
        raise
    except Exception as error:
        raise DepthlrError(f"the function that builds the model failed ({kind_and_message(error)}).") from error
    if not isinstance(model, nn.Module):
        raise DepthlrError(
            f"the function that builds the model gave a {type(model).__name__}: let it return the model."
        )
    return model
