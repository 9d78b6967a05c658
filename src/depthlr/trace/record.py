"""Recording a run of a model as a graph: a torch-function mode that records every operation on the signal.

The *signal* starts at the floating-point inputs, and at look-ups of parameters by integer inputs (token ids). Integer
and boolean values (masks, positions) are followed only as indices, so that a mask added to attention scores is not
taken for a residual branch. Small models run with real tensors, large models with fake tensors if possible.
"""

from __future__ import annotations

import contextlib
import traceback
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.nn.functional import linear
from torch.nn.modules import module as torch_modules
from torch.overrides import TorchFunctionMode

from depthlr.errors import DepthlrError
from depthlr.trace import operations as ops
from depthlr.trace.distances import compute_distances
from depthlr.trace.graph import ROOT, Activation, Graph, ModuleCall, Node
from depthlr.trace.run import (
    Arguments,
    arguments_of,
    cannot_run,
    check_runnable,
    clean_path,
    empty_caches,
    force_eager,
    is_sharded,
    keep_all_layers,
    logits_of,
    move_to_model,
    preserve_state,
    preserve_weights,
    readouts_of,
    release_fake_tensors,
    silence_fake_tensor_log,
    tensors_in,
    unwrap,
)

See = Callable[[int, Tensor], None]  # of a node and its value
SMALL_MODEL, SMALL_EXAMPLE = 2**21, 2**14  # numbers


@dataclass(frozen=True)
class Watch:
    """What to look at while a recorded run is repeated."""

    graph: Graph  # of the first run; the repetition must have the same operations
    nodes: Collection[int]
    see: See  # called with each of these nodes before its value can be overwritten

    def recorder(self, model: nn.Module, parameters: Mapping[str, Tensor], arguments: Arguments) -> Recorder:
        """A recorder of the repetition."""
        repeated = Recorder(
            model,
            parameters,
            integers_are_signal=self.graph.integers_are_signal,
            allow_recurrence=True,
            watch=self,
        )
        repeated.feed(arguments)
        return repeated


class Role(Enum):
    """What a tensor is to the run."""

    signal = "signal"  # depends on the input; its tag is the node that made it
    index = "index"  # an integer or a mask that comes from the node in its tag
    weight = "weight"  # comes from the parameters named in its tag
    constant = "constant"  # made by visible operations from none of these


def _activation(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Activation | None:
    """A call as a function of its first argument, if all other arguments are constants."""
    # Without `training` a random slope (RReLU) is its mean.
    options = {k: v for k, v in kwargs.items() if k not in {"input", "inplace", "training"}}
    if all(isinstance(constant, int | float | str | None) for constant in (*args[1:], *options.values())):
        return Activation(function, args[1:], tuple(options.items()))
    return None


def _are_whole_powers(exponents: tuple[Any, ...]) -> bool:
    """Are these whole powers, such as squares and cubes? Then q exists for every base."""
    return all(isinstance(power, int | float) and power >= 1 and power % 1 == 0 for power in exponents)


class Recorder(TorchFunctionMode):
    """Builds a Graph while active.

    Args:
        model: The model that runs.
        parameters: The tensors that stand for its parameters in this run.
        integers_are_signal: Follow integer inputs as the signal.
        allow_recurrence: Accept LSTM, GRU and RNN layers.
        watch: What to look at, if this run repeats one that was recorded.
    """

    def __init__(
        self,
        model: nn.Module,
        parameters: Mapping[str, Tensor],
        *,
        integers_are_signal: bool = False,
        allow_recurrence: bool = False,
        watch: Watch | None = None,
    ) -> None:
        super().__init__()
        self.graph = Graph(integers_are_signal=integers_are_signal)
        self._watch = watch
        self._integers_are_signal = integers_are_signal
        self._allow_recurrence = allow_recurrence
        self._paths = {id(m): clean_path(name) for name, m in model.named_modules()}
        self._tags: dict[int, tuple[Role, Any]] = {}  # by id; an entry is removed with its tensor, so ids stay unique
        self._references: dict[int, weakref.ref[Tensor]] = {}
        for name, tensor in parameters.items():
            self._tag(tensor, Role.weight, (clean_path(name),))
        self._stack = [0]
        self._hooks: list[Any] = []

    # -- lifetime ------------------------------------------------------------------------------------------------
    def __enter__(self) -> Recorder:
        self._hooks = [
            torch_modules.register_module_forward_pre_hook(self._enter_module),
            torch_modules.register_module_forward_hook(self._leave_module),
        ]
        self._call_scripted = torch.jit.ScriptFunction.__call__
        torch.jit.ScriptFunction.__call__ = self._recording(self._call_scripted)  # type: ignore[method-assign]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        torch.jit.ScriptFunction.__call__ = self._call_scripted  # type: ignore[method-assign]
        for hook in self._hooks:
            hook.remove()
        if self._watch is not None and error[0] is None and not self.graph.same_operations(self._watch.graph):
            raise DepthlrError(
                "the model did not run the same operations the second time: its control flow is random or depends on "
                "the batch or on gradients; try eval mode, or the same batch."
            )

    def feed(self, inputs: Any) -> None:
        """Declare the model's inputs: the root of the graph."""
        for tensor in tensors_in(inputs):
            # One node per input: a path from a mask or a condition is not a short cut for the signal.
            self._add(Node("input", (ROOT,)), [])
            self._tag(tensor, Role.signal if self._flows(tensor) else Role.index, len(self.graph.nodes) - 1)

    def close(self, output: Any, readout_index: int | None = None) -> None:
        """Declare the model's output.

        Args:
            output: What the model returned.
            readout_index: Index of the readout among the candidates. If None: `logits`, or the deepest candidate.
        """
        tags = [self._tags.get(id(readout), (Role.constant, ROOT)) for readout in readouts_of(output)]
        nodes = [node if role is Role.signal else ROOT for role, node in tags]
        if readout_index is None:
            readout_index = 0
            if len(set(nodes)) > 1 and logits_of(output) is None:
                depths = compute_distances(self.graph).units
                readout_index = max(range(len(nodes)), key=lambda i: depths[nodes[i]])  # the first of equals
        self.graph.readout, self.graph.readout_index = nodes[readout_index], readout_index

    # -- tags ----------------------------------------------------------------------------------------------------
    def _tag(self, tensor: Tensor, role: Role, value: Any) -> None:
        key = id(tensor)
        self._tags[key] = (role, value)
        if key not in self._references:
            self._references[key] = weakref.ref(tensor, lambda _: self._forget(key))

    def _forget(self, key: int) -> None:
        self._tags.pop(key, None)
        self._references.pop(key, None)

    def _nodes(self, tensors: Iterable[Tensor], role: Role) -> tuple[int, ...]:
        """The nodes of those tensors that have this role."""
        tags = [self._tags.get(id(t)) for t in tensors]
        return tuple(dict.fromkeys(tag[1] for tag in tags if tag is not None and tag[0] is role))

    def _flows(self, tensor: Tensor) -> bool:
        """Can this tensor carry the signal, or only an index or a mask?"""
        integers = self._integers_are_signal and tensor.dtype != torch.bool
        return tensor.is_floating_point() or tensor.is_complex() or integers

    # -- modules -------------------------------------------------------------------------------------------------
    def _enter_module(self, module: nn.Module, args: Any) -> None:
        path = self._paths.get(id(module))
        if path is None:  # a module made during the forward pass
            path = self.graph.calls[self._stack[-1]].path
        self.graph.calls.append(ModuleCall(path, module, self._stack[-1]))
        self._stack.append(len(self.graph.calls) - 1)

    def _leave_module(self, module: nn.Module, args: Any, output: Any) -> None:
        # An exception that the model caught can leave inner calls open.
        while len(self._stack) > 1 and self.graph.calls[self._stack[-1]].module is not module:
            self._stack.pop()
        with torch._C.DisableTorchFunction():
            self._join(type(module).__name__, args, output, (clean_path(n) for n, _ in module.named_parameters()))
            made = self._nodes([t for t in tensors_in(output) if self._flows(t)], Role.signal)
            self.graph.calls[self._stack[-1]].output = made[0] if made else None
        if len(self._stack) > 1:
            self._stack.pop()

    # -- what torch functions cannot see -------------------------------------------------------------------------
    def _recording(self, call_scripted: Callable[..., Any]) -> Callable[..., Any]:
        """Record a call of a TorchScript function as one operation."""

        def call(function: Any, *args: Any, **kwargs: Any) -> Any:
            result = call_scripted(function, *args, **kwargs)
            with torch._C.DisableTorchFunction():
                given = list(tensors_in((args, kwargs)))
                weights = [n for t in given if (tag := self._tags.get(id(t))) and tag[0] is Role.weight for n in tag[1]]
                self._join(function.name, given, result, weights, _activation(function, args, kwargs))
            return result

        return call

    def _join(
        self, name: str, given: Any, output: Any, weights: Iterable[str], activation: Activation | None = None
    ) -> None:
        """Connect the outputs of a hidden kernel to its inputs."""
        hidden = [t for t in tensors_in(output) if self._flows(t) and id(t) not in self._tags]
        sources = self._nodes(tensors_in(given), Role.signal) if hidden else ()
        if sources:
            names = tuple(dict.fromkeys(weights))
            node = Node(name, sources, names, bool(names), self._stack[-1])
            node.activation = activation
            self._add(node, hidden)

    # -- operations ----------------------------------------------------------------------------------------------
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = ops.operation_name(func, kwargs)
        if name in ops.RECURRENT and not self._allow_recurrence:
            raise DepthlrError(
                f"the model is recurrent ({name}): the law covers non-recurrent models, and depth along time is not "
                "counted; from Python, units= counts it your way, by classes or as a number of units."
            )
        arguments = list(tensors_in(args))
        if kwargs:
            arguments.extend(tensors_in(kwargs))
        self._tag_gathered(arguments)
        sources = self._nodes(arguments, Role.signal)
        indices = self._nodes(arguments, Role.index)
        operands = [t for t in arguments if self._tags.get(id(t), (None,))[0] is Role.weight]
        result = func(*args, **kwargs)
        outputs = [args[0]] if name == "__setitem__" else list(tensors_in(result))  # which returns nothing
        if not outputs:
            return result
        if name == "view_as" and len(arguments) == 2 and arguments[0] is arguments[1]:
            # PyTorch does this where a custom function, such as that of a gradient hook, returns its input.
            if tag := self._tags.get(id(arguments[0])):
                self._tag(result, *tag)
            return result
        weights = tuple(dict.fromkeys(n for t in operands for n in self._tags[id(t)][1]))
        lookup = name in ops.LOOKUPS and bool(indices and weights) and not sources
        if (sources or lookup) and name not in ops.SHAPE_ONLY:
            node = Node(name, sources or indices, weights, scope=self._stack[-1])
            node.factor = ops.constant_factor(name, args, kwargs)
            node.fan_in = 1 if lookup else ops.fan_in(name, args, kwargs, operands) if weights else 0
            is_chain = name in ops.MATRIX_PRODUCTS and len(operands) > 1  # x A B is x (A B)
            node.composed = is_chain or any(len(self._tags[id(t)][1]) > 1 for t in operands)
            self._record(node, func, args, kwargs, outputs)
            return result
        role: Role = Role.constant
        value: Any = None
        if name not in ops.SHAPE_ONLY and (indices or weights):
            role, value = (Role.index, indices[0]) if indices else (Role.weight, weights)
        for tensor in outputs:
            self._tag(tensor, role, value)
        return result

    def _tag_gathered(self, arguments: list[Tensor]) -> None:
        """Tag parameters that FSDP gathered during the run: they were not declared."""
        for tensor in arguments:
            if isinstance(tensor, nn.Parameter) and id(tensor) not in self._tags:
                self._tag(tensor, Role.weight, (f"{self.graph.calls[self._stack[-1]].path}.{len(self._tags)}",))

    def _record(
        self, node: Node, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: list[Tensor]
    ) -> None:
        flowing = [t for t in outputs if self._flows(t)]
        for tensor in outputs:
            if not self._flows(tensor):
                self._tag(tensor, Role.index, node.inputs[0])
        if not flowing:
            return
        shape = flowing[0].shape or (1,)
        if node.name == "multi_head_attention_forward":  # one call for in- and out-projection
            width = shape[-1]
            out = tuple(w for w in node.weights if ".out_proj." in f".{w}")
            into = tuple(w for w in node.weights if w not in out)
            self._add(Node(ops.IN_PROJECTION, node.inputs, into, True, node.scope, width, width), [])
            self._show(lambda: _in_projection(*args, **kwargs))
            node = Node(node.name, (len(self.graph.nodes) - 1,), out, scope=node.scope, fan_in=width)
        if node.fan_in:
            node.weighted = True
            node.width = shape[1] if node.name in ops.CONVOLUTION_NAMES and len(shape) > 1 else shape[-1]
        if node.name in ops.ACTIVATION_NAMES and (
            node.name not in ops.POWERS or _are_whole_powers((*args[1:], *kwargs.values()))
        ):
            node.activation = _activation(func, args, kwargs)
        # A write into a view also writes into its base.
        in_place = node.name.endswith("_") or node.name.startswith("__i")
        bases = [t._base for t in flowing if t._base is not None] if in_place and args and args[0] is flowing[0] else []
        self._add(node, [*flowing, *bases])

    def _add(self, node: Node, outputs: list[Tensor]) -> None:
        node.outputs = len(outputs)
        self.graph.nodes.append(node)
        for tensor in outputs:
            self._tag(tensor, Role.signal, len(self.graph.nodes) - 1)
        if outputs:
            self._show(lambda: outputs[0])

    def _show(self, value: Callable[[], Tensor]) -> None:
        """Show the value of the last node if it is watched."""
        index = len(self.graph.nodes) - 1
        if self._watch is not None and index in self._watch.nodes:
            self._watch.see(index, value())


def _in_projection(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    width: int,
    heads: int,
    weight: Tensor | None,
    bias: Tensor | None,
    *rest: Any,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    **others: Any,
) -> Tensor:
    """The queries, keys and values inside `multi_head_attention_forward`, as one vector: their lengths may differ."""
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if weight is None else weight.chunk(3)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    parts = zip((query, key, value), weights, biases, strict=True)
    return torch.cat([linear(x, w, b).flatten() for x, w, b in parts if w is not None])


def trace(model: nn.Module, example: Any, *, allow_recurrence: bool = False, in_its_mode: bool = False) -> Graph:
    """Record the graph of one run of `model` on `example`. The model is not changed.

    Args:
        model: The model to run.
        example: A tensor, a tuple of positional or a mapping of named arguments.
        allow_recurrence: Accept LSTM, GRU and RNN layers.
        in_its_mode: Keep the training mode of the modules; else they are evaluated.
    """
    model = unwrap(model)
    check_runnable(model)
    arguments = move_to_model(model, arguments_of(example))
    with contextlib.nullcontext() if in_its_mode else keep_all_layers(model):
        for integers_are_signal in (False, True):
            graph = _trace(model, arguments, integers_are_signal, allow_recurrence)
            if graph.readout != ROOT:
                return graph
    raise DepthlrError(
        "the model's output does not depend on the example through any torch operation, so it has no depth to count."
    )


def _trace(model: nn.Module, arguments: Arguments, integers_are_signal: bool, allow_recurrence: bool) -> Graph:
    options = _Options(integers_are_signal=integers_are_signal, allow_recurrence=allow_recurrence)
    on_meta = any(p.is_meta for p in model.parameters())
    runs: list[Run] = [
        _run_fake,
        *([] if on_meta else [_run_real]),
    ]  # a real run if the model reads values or holds real tensors
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
    """Is a real run fast? Fake tensors import PyTorch's compiler, which takes a second."""
    inputs = [leaf for leaf in torch.utils._pytree.tree_leaves(arguments) if isinstance(leaf, Tensor)]
    own = [*model.parameters(), *model.buffers()]
    return (
        all(tensor.device.type in ("cpu", "meta") for tensor in (*own, *inputs))
        and sum(tensor.numel() for tensor in own) <= SMALL_MODEL
        and sum(tensor.numel() for tensor in inputs) <= SMALL_EXAMPLE
    )


class _Options(TypedDict):
    integers_are_signal: bool
    allow_recurrence: bool


Run = Callable[[nn.Module, Arguments, _Options], Graph]


def _run_fake(model: nn.Module, arguments: Arguments, options: _Options) -> Graph:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with preserve_state(model):
        try:
            with mode, silence_fake_tensor_log():
                graph = _run_shadows(model, arguments, options)
        except BaseException as error:
            # The frames of a failed run hold all its tensors, and to find who holds a tensor is a search of the heap.
            traceback.clear_frames(error.__traceback__)
            empty_caches(mode)
            raise
    release_fake_tensors(mode)  # after the attributes of the model are restored
    return graph


def _run_on_zeros(model: nn.Module, arguments: Arguments, options: _Options) -> Graph:
    with preserve_state(model):
        return _run_shadows(model, arguments, options)


def _run_shadows(model: nn.Module, arguments: Arguments, options: _Options) -> Graph:
    """Run with new tensors in place of parameters, buffers and inputs: fake tensors, or zeros."""

    def shadow(tensor: Tensor) -> Tensor:
        device = torch.device("cpu") if tensor.is_meta else tensor.device
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=device)

    parameters = {name: shadow(p) for name, p in model.named_parameters()}
    buffers = {name: shadow(b) for name, b in model.named_buffers()}
    args, kwargs = torch.utils._pytree.tree_map_only(Tensor, shadow, arguments)
    recorder = Recorder(model, parameters, **options)
    recorder.feed((args, kwargs))
    with force_eager(), torch.no_grad(), recorder:
        recorder.close(functional_call(model, {**parameters, **buffers}, args, kwargs))
    return recorder.graph


def _run_real(model: nn.Module, arguments: Arguments, options: _Options) -> Graph:
    # Copies: a tensor that is passed twice is two inputs, and a model may write into its inputs.
    args, kwargs = torch.utils._pytree.tree_map_only(Tensor, torch.clone, arguments)
    recorder = Recorder(model, dict(model.named_parameters()), **options)
    recorder.feed((args, kwargs))
    with force_eager(), torch.no_grad(), preserve_state(model), preserve_weights(model), recorder:
        recorder.close(model(*args, **kwargs))
    return recorder.graph
