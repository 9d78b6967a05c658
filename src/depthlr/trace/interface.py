"""What goes into a model and comes out: arguments, outputs, the loss; and the wrappers around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from depthlr.errors import DepthlrError, kind_and_message

LossFn = Callable[[Any, Any], torch.Tensor]  # of output and target
NO_GRADIENT = "the loss does not depend on any trainable parameter, so its gradient is zero."
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
# Names that wrappers add to module paths.
WRAPPER_NAMES = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


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


def has_floats(tensor: Tensor) -> bool:
    """Does the tensor hold floating-point or complex numbers?"""
    return tensor.is_floating_point() or tensor.is_complex()


def readouts_of(output: Any) -> list[Tensor]:
    """The floating-point tensors of an output that may be the readout, with `logits` first.

    Scalars, such as losses, are left out unless there are only scalars.
    """
    named = logits_of(output)
    found = [t for t in tensors_in(output) if t is not named]
    if named is not None:
        found.insert(0, named)
    candidates = [t for t in found if has_floats(t)]
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
        raise DepthlrError("the model has lazy, uninitialized parameters: run it once on a batch, then try again.")


def check_loss(loss: Any) -> Tensor:
    """Return the loss, or raise unless it is one number that has a gradient."""
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        found = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise DepthlrError(f"loss_fn must return one number as a tensor, not {found}: reduce it, such as by its mean.")
    if not loss.requires_grad:
        raise DepthlrError(NO_GRADIENT)
    return loss


def cannot_run(error: Exception) -> DepthlrError:
    """The error for a model that failed on its example."""
    return DepthlrError(
        f"the model could not run on the example ({kind_and_message(error)}); pass one that model(*example) or "
        "model(**example) accepts."
    )


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
