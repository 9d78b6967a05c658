"""Tracing: one run of a model on an example, recorded as a graph. The model is not changed.

Small models run for real. Large models run on fake tensors if possible, which allocates nothing.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.func import functional_call
from torch.utils._pytree import tree_leaves, tree_map_only

from depthlr.errors import DepthlrError
from depthlr.trace.graph import ROOT, Graph
from depthlr.trace.interface import (
    Arguments,
    arguments_of,
    cannot_run,
    check_runnable,
    is_sharded,
    move_to_model,
    unwrap,
)
from depthlr.trace.preserve import force_eager, force_eval_flags, preserve_state, preserve_weights
from depthlr.trace.recorder import Recorder

# The most numbers in the weights and in the example of a model that is run for real: the first operation on a fake
# tensor imports 800 modules, which takes seconds.
SMALL_MODEL, SMALL_EXAMPLE = 2**21, 2**14
MakeRecorder = Callable[[Mapping[str, Tensor]], Recorder]  # of the tensors that stand for the parameters


def trace(model: nn.Module, example: Any, *, allow_recurrence: bool = False, keep_training_mode: bool = False) -> Graph:
    """Record the graph of one run of `model` on `example`. The model is not changed.

    Args:
        model: The model to run.
        example: A tensor, a tuple of positional or a mapping of named arguments.
        allow_recurrence: Accept LSTM, GRU and RNN layers.
        keep_training_mode: Keep the training mode of the modules; else they are evaluated.

    Returns:
        The graph, with a readout that depends on the example.

    Raises:
        DepthlrError: If the model cannot run, or its output does not depend on the example.
    """
    model = unwrap(model)
    check_runnable(model)
    arguments = move_to_model(model, arguments_of(example))
    with contextlib.nullcontext() if keep_training_mode else force_eval_flags(model):
        for integers_are_signal in (False, True):  # one-hot tokens and byte images are integers at first
            make_recorder = partial(
                Recorder, model, integers_are_signal=integers_are_signal, allow_recurrence=allow_recurrence
            )
            graph = _run(model, arguments, make_recorder)
            if graph.readout != ROOT:
                return graph
    raise DepthlrError(
        "the model's output does not depend on the example through any torch operation, so it has no depth to count."
    )


def _run(model: nn.Module, arguments: Arguments, make_recorder: MakeRecorder) -> Graph:
    """Run the model in the cheapest way that works."""
    on_meta = any(p.is_meta for p in model.parameters())
    if is_sharded(model):
        ways = [_run_real]
    elif _is_small(model, arguments):
        ways = [_run_on_zeros, _run_fake] if on_meta else [_run_real]
    else:  # a real run if the model reads values or holds real tensors
        ways = [_run_fake] if on_meta else [_run_fake, _run_real]
    for way in ways:
        try:
            return way(model, arguments, make_recorder)
        except DepthlrError:
            raise
        except Exception as error:
            failed = error  # that of the last way is reported
    raise cannot_run(failed) from failed


def _is_small(model: nn.Module, arguments: Arguments) -> bool:
    """Is a real run fast?"""
    inputs = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, Tensor)]
    own = [*model.parameters(), *model.buffers()]
    if any(tensor.device.type not in ("cpu", "meta") for tensor in (*own, *inputs)):
        return False
    return _numbers(own) <= SMALL_MODEL and _numbers(inputs) <= SMALL_EXAMPLE


def _numbers(tensors: list[Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def _run_real(model: nn.Module, arguments: Arguments, make_recorder: MakeRecorder) -> Graph:
    # Copies: a tensor that is passed twice is two inputs, and a model may write into its inputs.
    copies = tree_map_only(Tensor, torch.clone, arguments)
    _reshard(model)
    with preserve_state(model), preserve_weights(model):
        try:
            return _record(make_recorder(dict(model.named_parameters())), model, {}, copies)
        finally:
            _reshard(model)


def _reshard(model: nn.Module) -> None:
    """FSDP2 keeps the root's weights whole after a forward pass. Restored attributes would contradict that."""
    for module in model.modules():
        if any(base.__name__ == "FSDPModule" for base in type(module).__mro__):
            module.reshard()  # type: ignore[operator]


def _run_on_zeros(model: nn.Module, arguments: Arguments, make_recorder: MakeRecorder) -> Graph:
    with preserve_state(model):
        return _run_shadows(model, arguments, make_recorder, _numbers_in_buffers(model))


def _run_fake(model: nn.Module, arguments: Arguments, make_recorder: MakeRecorder) -> Graph:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    numbers = _numbers_in_buffers(model)
    with preserve_state(model):
        try:
            with mode, _silence_fake_tensor_log():
                graph = _run_shadows(model, arguments, make_recorder, numbers)
        except BaseException as error:
            # The traceback holds all tensors of the failed run. Free them first: the next line searches the whole heap
            # once for each tensor that is left.
            traceback.clear_frames(error.__traceback__)
            _empty_caches(mode)
            raise
    _release_fake_tensors(mode)  # after the attributes of the model are restored
    return graph


def _numbers_in_buffers(model: nn.Module) -> dict[str, float]:
    """The values of buffers with one number, such as a multiplier, by name. Those on the meta device have none."""
    buffers = {name: buffer for name, buffer in model.named_buffers() if buffer.numel() == 1 and not buffer.is_meta}
    return {name: float(buffer) for name, buffer in buffers.items() if buffer.is_floating_point()}


def _run_shadows(
    model: nn.Module, arguments: Arguments, make_recorder: MakeRecorder, numbers: Mapping[str, float]
) -> Graph:
    """Run with new tensors in place of parameters, buffers and inputs: fake tensors, or zeros."""

    def shadow(tensor: Tensor) -> Tensor:
        device = torch.device("cpu") if tensor.is_meta else tensor.device
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=device)

    parameters = {name: shadow(p) for name, p in model.named_parameters()}
    buffers = {name: shadow(b) for name, b in model.named_buffers()}
    weights = {**parameters, **buffers}
    recorder = make_recorder(parameters)
    recorder.numbers = {id(buffers[name]): number for name, number in numbers.items()}
    return _record(recorder, model, weights, tree_map_only(Tensor, shadow, arguments))


def _record(recorder: Recorder, model: nn.Module, weights: dict[str, Tensor], arguments: Arguments) -> Graph:
    """Run the model with these weights in place of its own."""
    recorder.declare_inputs(arguments)
    with force_eager(), torch.no_grad(), recorder:
        recorder.declare_output(functional_call(model, weights, *arguments))
    return recorder.graph


@contextlib.contextmanager
def _silence_fake_tensor_log() -> Iterator[None]:
    """Fake tensors log a traceback before they raise. The caller gets the exception and needs no log."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _release_fake_tensors(mode: FakeTensorMode) -> None:
    """Empty the caches that still hold a fake tensor of this mode after a run.

    Raises:
        DepthlrError: If something other than a cache holds one. The next real run would get it.
    """
    if not _living_fake_tensors(mode):
        return
    gc.collect()  # frees most of them
    _empty_caches(mode)
    gc.collect()
    if _living_fake_tensors(mode):
        raise DepthlrError(
            "the model keeps tensors outside of its modules, where they cannot be put back, and is too large to be "
            "counted on real ones: hold them in the model, or in a dict or functools.lru_cache, and build it anew."
        )


def _living_fake_tensors(mode: FakeTensorMode) -> list[FakeTensor]:
    # type(), not isinstance(): some objects override __class__.
    return [one for one in gc.get_objects() if type(one) is FakeTensor and one.fake_mode is mode]


def _empty_caches(mode: FakeTensorMode) -> None:
    """Remove fake tensors of this mode from caches. Also needed after a failed run, whose traceback holds them."""
    for tensor in _living_fake_tensors(mode):
        _drop(tensor)


def _drop(held: Any) -> None:
    """Remove an object from the lru_caches and dicts that hold it, directly or in a tuple."""
    for holder in gc.get_referrers(held):
        if isinstance(holder, functools._lru_cache_wrapper):
            holder.cache_clear()
        elif isinstance(holder, tuple):
            _drop(holder)
        elif isinstance(holder, dict) and not _is_namespace(holder):
            for key in [key for key, value in holder.items() if value is held]:
                del holder[key]


def _is_namespace(holder: dict[Any, Any]) -> bool:
    """Does this dict hold the variables of a module or the attributes of an object? These must stay."""
    owners = gc.get_referrers(holder)
    return any(isinstance(o, ModuleType) or getattr(o, "__dict__", None) is holder for o in owners)
