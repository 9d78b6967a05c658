"""What a forward pass writes into its modules, undone: caches it fills, counters, buffers, generators' states."""

from __future__ import annotations

import contextlib
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

# Their own kind may refuse to be emptied or filled, as Hugging Face's outputs do.
CONTAINERS = (dict, OrderedDict, defaultdict, list, deque, set)
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
    values = [(tensor, tensor.detach().clone()) for module, _ in attributes for tensor in _written(module)]
    others = [(t, t._version, t.detach().clone()) for _, own in attributes for t in _writable(own.values())]
    states = [(v, v.get_state()) for _, own in attributes for v in own.values() if isinstance(v, torch.Generator)]
    try:
        yield
    finally:
        for module, own in attributes:
            module.__dict__.clear()
            module.__dict__.update(own)
        for container, held in contents.values():
            _refill(container, held)
        with torch.no_grad():
            for tensor, value in values:
                tensor.copy_(value)
            for tensor, version, value in others:
                if tensor._version != version:
                    tensor.copy_(value)
        for generator, state in states:
            generator.set_state(state)


def _written(module: nn.Module) -> Iterator[Tensor]:
    """Tensors that a forward pass is known to write into: buffers, an embedding's weights under `max_norm`."""
    shortened = module._parameters.values() if getattr(module, "max_norm", None) is not None else ()
    for tensor in (*module._buffers.values(), *shortened):
        if tensor is not None and not tensor.is_meta:
            yield tensor


def _writable(values: Iterable[Any]) -> Iterator[Tensor]:
    """Other tensors, which count what is written into them: views of one number, and most others, never are."""
    for value in values:
        if isinstance(value, Tensor) and not (value.requires_grad or value.is_meta or value.is_inference()):
            yield value


def _remember(values: Iterable[Any], contents: Contents) -> None:
    for value in values:
        if type(value) in CONTAINERS and id(value) not in contents:
            contents[id(value)] = (value, value.copy())
            if value:
                _remember(value.values() if isinstance(value, dict) else value, contents)


def _refill(container: Any, held: Any) -> None:
    if container or held:
        container.clear()
        if isinstance(container, list | deque):
            container.extend(held)
        else:
            container.update(held)
