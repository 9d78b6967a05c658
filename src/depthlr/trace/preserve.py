"""Running a model so that it is unchanged afterwards: attributes, buffers, weights and random states are restored."""

from __future__ import annotations

import contextlib
import random
import sys
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from depthlr.random_states import preserve_random_states

# Exact types only: subclasses may refuse to be cleared or filled, as Hugging Face outputs do.
CONTAINERS = (dict, OrderedDict, defaultdict, list, deque, set)
GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)


@contextlib.contextmanager
def preserve_state(model: nn.Module, seed: int | None = None) -> Iterator[None]:
    """Restore attributes, buffers and random states after a run.

    Args:
        model: The model that runs inside.
        seed: Seeds the random states inside, if given.
    """
    devices = {p.device for p in model.parameters() if p.device.type == "cuda"}
    with preserve_random_states(seed, devices), preserve_attributes(model):
        yield


@contextlib.contextmanager
def preserve_attributes(model: nn.Module) -> Iterator[None]:
    """Restore the attributes of every module. Sparse tensors that the model writes into are not restored.

    Containers are restored in place, because hook handles and other modules refer to the same objects.
    """
    attributes = [(module, vars(module).copy()) for module in model.modules()]
    containers: dict[int, tuple[Any, Any]] = {}  # with their contents, by id: modules may share a container
    values = []
    pending = [value for _, own in attributes for value in own.values()]
    while pending:
        value = pending.pop()
        if type(value) not in CONTAINERS:
            values.append(value)
        elif id(value) not in containers:
            containers[id(value)] = (value, value.copy() if value else ())  # most dictionaries of hooks are empty
            if value:
                pending.extend(value.values() if isinstance(value, dict) else value)
    kinds = {type(value) for value in values}  # few types; isinstance on every value is slow
    of_tensors = {kind for kind in kinds if issubclass(kind, Tensor)}
    of_generators = {kind for kind in kinds if issubclass(kind, GENERATORS)}
    written = [value for value in values if type(value) in of_tensors and _may_be_written(value)]
    for _, own in attributes:
        if own.get("max_norm") is not None:  # an embedding that shortens its weights when it runs
            written.extend(own["_parameters"].values())
    tensors = [(tensor, tensor.detach().clone()) for tensor in written]
    generators = [_state(value) for value in values if type(value) in of_generators]
    try:
        yield
    finally:
        for module, own in attributes:
            module.__dict__.clear()
            module.__dict__.update(own)
        for container, contents in containers.values():
            _refill(container, contents)
        with torch.no_grad():
            for tensor, value in _changed_tensors(tensors):
                tensor.copy_(value)
        for restore in generators:
            restore()


def _may_be_written(tensor: Tensor) -> bool:
    """Is this a buffer or another plain tensor that a forward pass may write into, and not a weight?"""
    is_weight = isinstance(tensor, nn.Parameter) or tensor.requires_grad
    has_values = tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_meta
    return has_values and not is_weight and not tensor.is_inference()


def _refill(container: Any, contents: Any) -> None:
    if container or contents:
        container.clear()
        if isinstance(container, list | deque):
            container.extend(contents)
        else:
            container.update(contents)


def _changed_tensors(tensors: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
    """The tensors whose values changed. Others are not written, since a backward pass may still need them.

    Values are compared because BatchNorm does not change `_version`. All flags are read from the device at once.
    """
    if not tensors:
        return []
    differ = [(tensor != value).any() for tensor, value in tensors]
    flags = torch.stack([flag.to(differ[0].device) for flag in differ]).tolist()
    return [pair for pair, changed in zip(tensors, flags, strict=True) if changed]


@contextlib.contextmanager
def preserve_weights(model: nn.Module) -> Iterator[None]:
    """Restore the weights of a model that writes into them in its forward pass, for example to normalise them."""
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
    """A function that restores the current state of a generator."""
    if isinstance(generator, random.Random):
        return partial(generator.setstate, generator.getstate())
    if isinstance(generator, np.random.Generator):
        return partial(setattr, generator.bit_generator, "state", generator.bit_generator.state)
    return partial(generator.set_state, generator.get_state())


@contextlib.contextmanager
def force_eval_flags(model: nn.Module) -> Iterator[None]:
    """Set `training` to False in all modules, because training may drop layers at random.

    eval() is not called, because a model may override it.
    """
    flags = [(module, module.training) for module in model.modules()]
    for module, _ in flags:
        module.training = False
    try:
        yield
    finally:
        for module, training in flags:
            module.training = training


@contextlib.contextmanager
def force_eager() -> Iterator[None]:
    """Disable compiled graphs and fused inference kernels, which hide their operations."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    # If the compiler was never imported, nothing is compiled, and set_stance would import it.
    compiler = torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else contextlib.nullcontext()
    try:
        with compiler, warnings.catch_warnings():
            # Compiled submodules run their hooks twice; a second call of the same module changes no count.
            warnings.filterwarnings("ignore", message="Using `torch.compile")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
