"""Running a model under the recorder: for real where it is small, else without allocating weights where that works."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from depthlr.errors import DepthlrError, kind_and_message
from depthlr.trace.attributes import attributes_kept, weights_kept
from depthlr.trace.graph import ROOT, Graph
from depthlr.trace.leftovers import empty_caches, forget
from depthlr.trace.random_states import random_states_kept
from depthlr.trace.record import Recorder
from depthlr.trace.unwrap import is_sharded, unwrap

SMALL_MODEL, SMALL_EXAMPLE = 2**21, 2**14  # numbers
AUTOCAST_DEVICES = ("cpu", "cuda", "mps", "xpu")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class _Options(TypedDict):
    integers_are_signal: bool
    allow_recurrence: bool


Run = Callable[[nn.Module, Arguments, _Options], Graph]


def arguments_of(example: Any) -> Arguments:
    """An example as the model's arguments: a tensor, a tuple of positional ones, or a mapping of named ones."""
    if isinstance(example, Mapping):
        return (), dict(example)
    if isinstance(example, tuple | list):
        return tuple(example), {}
    return (example,), {}


def beside(model: nn.Module, arguments: Arguments) -> Arguments:
    """An example that lies on the CPU, on the model's device; a model on several devices moves its inputs itself."""
    devices = {p.device for p in model.parameters()}
    if len(devices) > 1 or devices <= {torch.device("cpu"), torch.device("meta")}:
        return arguments
    (device,) = devices
    moved: Arguments = torch.utils._pytree.tree_map_only(
        Tensor, lambda tensor: tensor.to(device) if tensor.device.type == "cpu" else tensor, arguments
    )
    return moved


def trace(model: nn.Module, example: Any, *, allow_recurrence: bool = False, in_its_mode: bool = False) -> Graph:
    """The graph of one run of `model` on `example`, evaluated unless it is to stay `in_its_mode`.

    The model is left as it was.
    """
    model = unwrap(model)
    check_runnable(model)
    arguments = beside(model, arguments_of(example))
    with contextlib.nullcontext() if in_its_mode else _all_layers(model):
        for integers_are_signal in (False, True):
            graph = _trace(model, arguments, integers_are_signal, allow_recurrence)
            if graph.readout != ROOT:
                return graph
    raise DepthlrError(
        "the model's output does not depend on the example through any torch operation, so it has no depth to count."
    )


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


def _trace(model: nn.Module, arguments: Arguments, integers_are_signal: bool, allow_recurrence: bool) -> Graph:
    options = _Options(integers_are_signal=integers_are_signal, allow_recurrence=allow_recurrence)
    on_meta = any(p.is_meta for p in model.parameters())
    runs: list[Run] = [_run_fake, *([] if on_meta else [_run_real])]  # it may look at values, or hold what is not faked
    if is_sharded(model):
        runs = [_run_real]
    elif _is_small(model, arguments):
        runs = [_run_on_zeros, _run_fake] if on_meta else [_run_real]
    for run in runs:
        try:
            return run(model, arguments, options)
        except DepthlrError:
            raise
        except Exception as error:
            failed = error
    raise cannot_run(failed) from failed


def _is_small(model: nn.Module, arguments: Arguments) -> bool:
    """Does a real run take milliseconds? Fake tensors import PyTorch's compiler first, which takes a second."""
    inputs = [leaf for leaf in torch.utils._pytree.tree_leaves(arguments) if isinstance(leaf, Tensor)]
    own = [*model.parameters(), *model.buffers()]
    return (
        all(tensor.device.type in ("cpu", "meta") for tensor in (*own, *inputs))
        and sum(tensor.numel() for tensor in own) <= SMALL_MODEL
        and sum(tensor.numel() for tensor in inputs) <= SMALL_EXAMPLE
    )


def cannot_run(error: Exception) -> DepthlrError:
    """The one sentence for a model that failed on its example."""
    if any(map(torch.is_autocast_enabled, AUTOCAST_DEVICES)):
        remedy = "torch.autocast is on, and may have mixed its types: try outside of it."
    else:
        remedy = "pass one that model(*example) or model(**example) accepts."
    return DepthlrError(f"the model could not run on the example ({kind_and_message(error)}); {remedy}")


def _run_fake(model: nn.Module, arguments: Arguments, options: _Options) -> Graph:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with untouched(model):
        try:
            with mode, quiet():
                graph = _run_shadows(model, arguments, options)
        except BaseException:
            empty_caches(mode)
            raise
    forget(mode)  # what the model's own attributes held is put back by now
    return graph


def _run_on_zeros(model: nn.Module, arguments: Arguments, options: _Options) -> Graph:
    with untouched(model):
        return _run_shadows(model, arguments, options)


def _run_shadows(model: nn.Module, arguments: Arguments, options: _Options) -> Graph:
    """Run with new tensors, zeros unless they are fake, in the place of all that the model holds and is given."""

    def shadow(tensor: Tensor) -> Tensor:
        device = torch.device("cpu") if tensor.is_meta else tensor.device
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=device)

    parameters = {name: shadow(p) for name, p in model.named_parameters()}
    buffers = {name: shadow(b) for name, b in model.named_buffers()}
    args, kwargs = torch.utils._pytree.tree_map_only(Tensor, shadow, arguments)
    recorder = Recorder(model, parameters, **options)
    recorder.feed((args, kwargs))
    with eager(), torch.no_grad(), recorder:
        recorder.close(functional_call(model, {**parameters, **buffers}, args, kwargs))
    return recorder.graph


def _run_real(model: nn.Module, arguments: Arguments, options: _Options) -> Graph:
    # Copies: an example passed twice is two inputs, and a model may write into what it is given.
    args, kwargs = torch.utils._pytree.tree_map_only(Tensor, torch.clone, arguments)
    recorder = Recorder(model, dict(model.named_parameters()), **options)
    recorder.feed((args, kwargs))
    with eager(), torch.no_grad(), untouched(model), weights_kept(model), recorder:
        recorder.close(model(*args, **kwargs))
    return recorder.graph


@contextlib.contextmanager
def _all_layers(model: nn.Module) -> Iterator[None]:
    """Training may leave layers out at random, and depth is that of all. Flags alone, since train() may do more."""
    flags = [(module, module.training) for module in model.modules()]
    for module, _ in flags:
        module.training = False
    try:
        yield
    finally:
        for module, training in flags:
            module.training = training


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Fake tensors log a traceback before they raise; the caller gets the exception and needs no log."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """No compiled graphs and no fused inference kernels: they hide their operations."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    # Where the compiler was never imported nothing is compiled, and asking it to stand aside would import it.
    compiler = torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else contextlib.nullcontext()
    try:
        with compiler, warnings.catch_warnings():
            # Compiled submodules run their hooks twice; a second call of the same module changes no count.
            warnings.filterwarnings("ignore", message="Using `torch.compile")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@contextlib.contextmanager
def untouched(model: nn.Module, seed: int | None = None) -> Iterator[None]:
    """Run a model and put back what running it changes: attributes, buffers, random states. `seed` fixes the latter."""
    devices = {p.device for p in model.parameters() if p.device.type == "cuda"}
    with random_states_kept(seed, devices), attributes_kept(model):
        yield
