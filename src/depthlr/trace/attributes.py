"""What a forward pass writes into its modules, undone: caches it fills, counters, buffers, generators' states."""

from __future__ import annotations

import contextlib
import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# Their own kind may refuse to be emptied or filled, as Hugging Face's outputs do.
CONTAINERS = (dict, OrderedDict, defaultdict, list, deque, set)
GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
Contents = dict[int, tuple[Any, Any]]
"""Containers with a copy of what they held, by identity: modules may share one."""


@contextlib.contextmanager
def attributes_kept(model: nn.Module) -> Iterator[None]:
    """Put back what every module holds.

    Containers are put back in place: handles of hooks, and other modules, hold the same ones.
    """
    attributes = [(module, vars(module).copy()) for module in model.modules()]
    contents: Contents = {}
    for _, own in attributes:
        _remember(own.values(), contents)
    groups = [*(own.values() for _, own in attributes), *(_values(copied) for _, copied in contents.values())]
    held = [value for group in groups for value in group]
    kinds = {type(value) for value in held}  # few; asking each value whether it is a tensor takes long
    values = [(tensor, tensor.detach().clone()) for _, own in attributes for tensor in _written(own)]
    known = {id(tensor) for tensor, _ in values}
    tensors, generators = ({kind for kind in kinds if issubclass(kind, sought)} for sought in (Tensor, GENERATORS))
    others = [
        (value, value._version, value.detach().clone())
        for value in held
        if type(value) in tensors and id(value) not in known and _is_writable(value)
    ]
    states = [_state(value) for value in held if type(value) in generators]
    try:
        yield
    finally:
        for module, own in attributes:
            module.__dict__.clear()
            module.__dict__.update(own)
        for container, copied in contents.values():
            _refill(container, copied)
        with torch.no_grad():
            for tensor, value in _changed(values):
                tensor.copy_(value)
            for tensor, version, value in others:
                if tensor._version != version:
                    tensor.copy_(value)
        for put_back in states:
            put_back()


def _changed(values: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
    """Tensors that are not what they were: into others nothing is written, since a backward pass may wait for them.

    Normalisation does not count what it writes. One look at the device is enough for all.
    """
    if not values:
        return []
    differ = [(tensor != value).any() for tensor, value in values]
    flags = torch.stack([flag.to(differ[0].device) for flag in differ]).tolist()
    return [pair for pair, changed in zip(values, flags, strict=True) if changed]


@contextlib.contextmanager
def weights_kept(model: nn.Module) -> Iterator[None]:
    """Put back what a model writes into its own weights, as those do that normalise them when they run."""
    weights = [(p, p._version, p.data, p.detach().clone()) for p in model.parameters() if not p.is_meta]
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, version, data, value in weights:
                if parameter.data_ptr() != data.data_ptr():
                    parameter.data = data
                if parameter._version != version and not torch.equal(data, value):
                    data.copy_(value)


def _state(generator: Any) -> Callable[[], Any]:
    """What puts a generator back to where it is now."""
    if isinstance(generator, torch.Generator):
        return partial(generator.set_state, generator.get_state())
    if isinstance(generator, random.Random):
        return partial(generator.setstate, generator.getstate())
    if isinstance(generator, np.random.RandomState):
        return partial(generator.set_state, generator.get_state())
    return partial(setattr, generator.bit_generator, "state", generator.bit_generator.state)


def _written(own: Mapping[str, Any]) -> Iterator[Tensor]:
    """Tensors of a module that running it writes into: buffers, an embedding's weights under `max_norm`."""
    shortened = own["_parameters"].values() if own.get("max_norm") is not None else ()
    for tensor in (*own["_buffers"].values(), *shortened):
        plain = tensor is not None and tensor.layout is torch.strided and not tensor.is_quantized
        if plain and not tensor.is_meta:
            yield tensor


def _is_writable(tensor: Tensor) -> bool:
    """Does it count what is written into it? Views of one number, and most others, never are."""
    return not (isinstance(tensor, nn.Parameter) or tensor.requires_grad or tensor.is_meta or tensor.is_inference())


def _values(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def _remember(values: Iterable[Any], contents: Contents) -> None:
    for value in values:
        if type(value) in CONTAINERS and id(value) not in contents:
            contents[id(value)] = (value, value.copy())
            if value:
                _remember(_values(value), contents)


def _refill(container: Any, held: Any) -> None:
    if container or held:
        container.clear()
        if isinstance(container, list | deque):
            container.extend(held)
        else:
            container.update(held)
