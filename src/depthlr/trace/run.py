"""Running a model safely: its arguments, device, wrappers and outputs. Everything that a run changes is restored."""

from __future__ import annotations

import contextlib
import random
import sys
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from depthlr.errors import DepthlrError, kind_and_message
from depthlr.random_states import preserve_random_states

AUTOCAST_DEVICES = ("cpu", "cuda", "mps", "xpu")
LossFn = Callable[[Any, Any], torch.Tensor]  # of output and target
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
# Names that wrappers add to module paths.
WRAPPER_NAMES = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
# Exact types only: subclasses may refuse to be cleared or filled, as Hugging Face outputs do.
CONTAINERS = (dict, OrderedDict, defaultdict, list, deque, set)
GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)


def arguments_of(example: Any) -> Arguments:
    """Convert an example to model arguments: a tensor, a tuple of positional or a mapping of named arguments."""
    if isinstance(example, Mapping):
        return (), dict(example)
    if isinstance(example, tuple | list):
        return tuple(example), {}
    return (example,), {}


def move_to_model(model: nn.Module, arguments: Arguments) -> Arguments:
    """Move CPU tensors to the model's device. A model on several devices moves its inputs itself.

    Args:
        model: The model that takes the arguments.
        arguments: Positional and named arguments.
    """
    devices = {p.device for p in model.parameters()}
    if len(devices) > 1 or devices <= {torch.device("cpu"), torch.device("meta")}:
        return arguments
    (device,) = devices

    def move(tensor: Tensor) -> Tensor:
        return tensor.to(device) if tensor.device.type == "cpu" else tensor

    moved: Arguments = torch.utils._pytree.tree_map_only(Tensor, move, arguments)
    return moved


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor in nested lists, tuples, mappings and dataclasses, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, int | float | str | None):  # most arguments that are not tensors
        return
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from tensors_in(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for item in fields(value):
            yield from tensors_in(getattr(value, item.name))


def readouts_of(output: Any) -> list[Tensor]:
    """Candidates for the readout: floating-point tensors, `logits` first. Scalars (losses) count only if alone."""
    named = logits_of(output)
    found = [t for t in tensors_in(output) if t is not named]
    if named is not None:
        found.insert(0, named)
    candidates = [t for t in found if t.is_floating_point() or t.is_complex()]
    if not candidates:
        raise DepthlrError(
            f"the model returned {type(output).__name__} without a floating-point tensor, so it has no readout to "
            "measure."
        )
    return [tensor for tensor in candidates if tensor.dim() > 0] or candidates


def logits_of(output: Any) -> Tensor | None:
    """The entry `logits` of a mapping or a dataclass, or None."""
    named = None
    if isinstance(output, Mapping):
        named = output.get("logits")
    elif is_dataclass(output) and not isinstance(output, type):
        named = getattr(output, "logits", None)
    return named if isinstance(named, Tensor) else None


def readout_of(output: Any) -> Tensor:
    """The first candidate for the readout, if neither the loss nor depths are known."""
    return readouts_of(output)[0]


def check_runnable(model: nn.Module) -> None:
    """Refuse models that cannot be traced or measured at all."""
    if not isinstance(model, nn.Module):
        raise DepthlrError(f"expected a torch.nn.Module, got {type(model).__name__}.")
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise DepthlrError(
            "TorchScript runs where its operations cannot be watched: pass the model that was scripted or traced."
        )
    if next(model.parameters(), None) is None:
        raise DepthlrError(f"{type(model).__name__} has no parameters, so there is nothing whose rate could be set.")
    if any(is_lazy(p) for p in model.parameters()):
        raise DepthlrError("the model has lazy, uninitialised parameters: run it once on a batch, then try again.")


def cannot_run(error: Exception) -> DepthlrError:
    """The error for a model that failed on its example."""
    if any(map(torch.is_autocast_enabled, AUTOCAST_DEVICES)):
        remedy = "torch.autocast is on, and may have mixed its types: try outside of it."
    else:
        remedy = "pass one that model(*example) or model(**example) accepts."
    return DepthlrError(f"the model could not run on the example ({kind_and_message(error)}); {remedy}")


@contextlib.contextmanager
def keep_all_layers(model: nn.Module) -> Iterator[None]:
    """Run with every layer: training may drop layers at random. Only flags are set, since train() may do more."""
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


def unwrap(model: nn.Module) -> nn.Module:
    """The user's module inside all wrappers. FSDP keeps its wrapper, which gathers the sharded weights."""
    inner = getattr(model, "_orig_mod", None)  # torch.compile's OptimizedModule
    if type(model).__name__ in {"DistributedDataParallel", "DataParallel"}:
        inner = model.module
    return unwrap(inner) if isinstance(inner, nn.Module) else model


def is_sharded(model: nn.Module) -> bool:
    """Are weights sharded over several ranks (FSDP1 modules, or DTensor parameters of FSDP2)?"""
    kinds = {type(module).__name__ for module in model.modules()}
    for parameter in model.parameters():
        kinds |= {type(parameter).__name__, type(parameter.data).__name__}
    return not kinds.isdisjoint({"FullyShardedDataParallel", "DTensor"})


def clean_path(path: str) -> str:
    """A module or parameter path without the wrappers' names."""
    return ".".join(part for part in path.split(".") if part not in WRAPPER_NAMES)


@contextlib.contextmanager
def preserve_attributes(model: nn.Module) -> Iterator[None]:
    """Restore the attributes of every module.

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
    if isinstance(generator, torch.Generator):
        return partial(generator.set_state, generator.get_state())
    if isinstance(generator, random.Random):
        return partial(generator.setstate, generator.getstate())
    if isinstance(generator, np.random.RandomState):
        return partial(generator.set_state, generator.get_state())
    return partial(setattr, generator.bit_generator, "state", generator.bit_generator.state)
