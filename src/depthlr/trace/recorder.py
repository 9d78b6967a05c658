"""Recording a run of a model as a graph: a torch-function mode that records every operation on the signal.

The *signal* starts at the floating-point inputs, and at look-ups of parameters by integer inputs (token ids). Integer
and boolean values (masks, positions) are followed only as indices, so that a mask added to attention scores is not
taken for a residual branch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from enum import Enum
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, multi_head_attention_forward
from torch.nn.modules import module as torch_modules
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from depthlr.errors import DepthlrError
from depthlr.trace import operations as ops
from depthlr.trace.distances import compute_distances
from depthlr.trace.graph import ROOT, Activation, Graph, ModuleCall, Node
from depthlr.trace.interface import Arguments, clean_path, has_floats, logits_of, readouts_of, tensors_in


class Role(Enum):
    """What a tensor is to the run."""

    signal = "signal"  # depends on the input; its source is the node that made it
    index = "index"  # an integer or a mask that comes from the node that is its source
    weight = "weight"  # comes from the parameters that are its source
    constant = "constant"  # made by visible operations from none of these


@dataclass(slots=True)
class _Reads:
    """What an operation reads. Dictionaries without values are ordered sets."""

    signal: dict[int, None] = field(default_factory=dict)  # nodes
    indices: dict[int, None] = field(default_factory=dict)  # nodes
    weights: dict[str, None] = field(default_factory=dict)  # parameters
    operands: list[Tensor] = field(default_factory=list)  # tensors that come from parameters
    several_parameters: bool = False  # does one of these come from several parameters?


class Recorder(TorchFunctionMode):
    """Builds a Graph while active.

    Args:
        model: The model that runs.
        parameters: The tensors that stand for its parameters in this run.
        integers_are_signal: Follow integer inputs as the signal.
        allow_recurrence: Accept LSTM, GRU and RNN layers.
        watch: Which values to report, if this run repeats one that was recorded.
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
        self._allow_recurrence = allow_recurrence
        self.numbers: dict[int, float] = {}  # in the model's buffers, by the id of what stands for these in this run
        self._paths = {id(m): clean_path(name) for name, m in model.named_modules()}
        self._roles: MutableMapping[Tensor, tuple[Role, Any]] = WeakTensorKeyDictionary()
        for name, tensor in parameters.items():
            self._roles[tensor] = (Role.weight, (clean_path(name),))
        self._stack = [0]
        self._hooks: list[Any] = []

    # -- roles ---------------------------------------------------------------------------------------------------
    def _set_roles(self, tensors: Iterable[Tensor], role: Role, source: Any) -> None:
        for tensor in tensors:
            self._roles[tensor] = (role, source)

    def _read_by_role(self, tensors: Iterable[Tensor]) -> _Reads:
        """The roles of some tensors, with the nodes and parameters that they come from."""
        found = _Reads()
        for tensor in tensors:
            role, source = self._roles.get(tensor) or self._role_of_gathered(tensor)
            if role is Role.signal:
                found.signal[source] = None
            elif role is Role.index:
                found.indices[source] = None
            elif role is Role.weight:
                found.operands.append(tensor)
                found.weights.update(dict.fromkeys(source))
                found.several_parameters |= len(source) > 1
        return found

    def _role_of_gathered(self, tensor: Tensor) -> tuple[Role, Any]:
        """The role of a tensor that has none yet: a constant, or a parameter that FSDP gathered during the run."""
        if not isinstance(tensor, nn.Parameter):
            return Role.constant, None
        name = f"{self.graph.calls[self._stack[-1]].path}.{len(self._roles)}"
        self._roles[tensor] = (Role.weight, (name,))
        return self._roles[tensor]

    def _flows(self, tensor: Tensor) -> bool:
        """Can this tensor carry the signal, or only an index or a mask?"""
        return has_floats(tensor) or (self.graph.integers_are_signal and tensor.dtype != torch.bool)

    # -- nodes ---------------------------------------------------------------------------------------------------
    def declare_inputs(self, inputs: Any) -> None:
        """Declare the model's inputs: the root of the graph."""
        for tensor in tensors_in(inputs):
            # One node per input: a path from a mask or a condition is not a short cut for the signal.
            self._add(Node("input", (ROOT,)), [])
            self._roles[tensor] = (Role.signal if self._flows(tensor) else Role.index, len(self.graph.nodes) - 1)

    def _add(self, node: Node, outputs: list[Tensor]) -> None:
        node.output_count = len(outputs)
        self.graph.nodes.append(node)
        self._set_roles(outputs, Role.signal, len(self.graph.nodes) - 1)
        if outputs:
            self._report_if_watched(lambda: outputs[0])

    def _report_if_watched(self, value: Callable[[], Tensor]) -> None:
        """Pass the value of the last node to the watch, if it wants this node."""
        index = len(self.graph.nodes) - 1
        if self._watch is not None and index in self._watch.nodes:
            self._watch.on_value(index, value())

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
            weights = (clean_path(name) for name, _ in module.named_parameters())
            self._add_hidden(type(module).__name__, tensors_in(args), output, weights)
            flowing = [t for t in tensors_in(output) if self._flows(t)]
            self.graph.calls[self._stack[-1]].output_node = next(iter(self._read_by_role(flowing).signal), None)
        if len(self._stack) > 1:
            self._stack.pop()

    # -- what torch functions cannot see -------------------------------------------------------------------------
    def _recording(self, call_scripted: Callable[..., Any]) -> Callable[..., Any]:
        """Record a call of a TorchScript function as one operation."""

        def call(function: Any, *args: Any, **kwargs: Any) -> Any:
            result = call_scripted(function, *args, **kwargs)
            with torch._C.DisableTorchFunction():
                given = list(tensors_in((args, kwargs)))
                weights = self._read_by_role(given).weights
                self._add_hidden(function.name, given, result, weights, _activation(function, args, kwargs))
            return result

        return call

    def _add_hidden(
        self,
        name: str,
        given: Iterable[Tensor],
        output: Any,
        weights: Iterable[str],
        activation: Activation | None = None,
    ) -> None:
        """Connect what a hidden kernel returned to the signal that it read, by one node."""
        hidden = [t for t in tensors_in(output) if self._flows(t) and t not in self._roles]
        if hidden and (signal := tuple(self._read_by_role(given).signal)):
            names = tuple(dict.fromkeys(weights))
            self._add(Node(name, signal, names, bool(names), self._stack[-1], activation=activation), hidden)

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
        read = self._read_by_role(tensors_in((args, kwargs) if kwargs else args))
        result = func(*args, **kwargs)
        outputs = [args[0]] if name == "setitem" else list(tensors_in(result))  # setitem returns nothing
        if not outputs:
            return result
        if name == "view_as" and len(args) == 2 and args[0] is args[1] and args[0] in self._roles:
            # A custom function returned its input, as that of a gradient hook does.
            self._roles[result] = self._roles[args[0]]
            return result
        # The result has the first role of these that an operand has: signal, index, weight, constant. The signal also
        # starts where an index selects rows of a parameter.
        is_lookup = name in ops.LOOKUPS and bool(read.indices and read.weights)
        if name in ops.SHAPE_ONLY:
            self._set_roles(outputs, Role.constant, None)
        elif read.signal or is_lookup:
            self._record(func, name, args, kwargs, read, outputs)
        elif read.indices:
            self._set_roles(outputs, Role.index, next(iter(read.indices)))
        elif read.weights:
            self._set_roles(outputs, Role.weight, tuple(read.weights))
        else:
            self._set_roles(outputs, Role.constant, None)
        return result

    def _as_number(self, value: Any) -> Any:
        """The number in a constant of one element, such as a buffer with a multiplier; any other value as it is."""
        if not isinstance(value, Tensor) or value.numel() != 1:
            return value
        role, _ = self._roles.get(value) or self._role_of_gathered(value)
        if role is not Role.constant:
            return value
        try:
            return self.numbers[id(value)] if id(value) in self.numbers else float(value)
        except Exception:  # a tensor without values, fake or on the meta device
            return value

    def _record(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], read: _Reads, outputs: list[Tensor]
    ) -> None:
        """Add a call on the signal as a node, with what its arguments and its result show."""
        node = Node(name, tuple(read.signal or read.indices), tuple(read.weights), scope=self._stack[-1])
        flowing = [t for t in outputs if self._flows(t)]
        self._set_roles([t for t in outputs if not self._flows(t)], Role.index, node.inputs[0])
        if not flowing:
            return
        shape = flowing[0].shape or (1,)
        if name == "multi_head_attention_forward":
            node = self._split_attention(node, shape[-1], args, kwargs)
        else:
            factors = tuple(map(self._as_number, args)) if name in ops.MULTIPLICATIONS else args
            node.factor = ops.constant_factor(name, factors, kwargs)
            if read.weights:  # a look-up selects one row
                node.fan_in = ops.fan_in(name, args, kwargs, read.operands) if read.signal else 1
            is_chain = name in ops.MATRIX_PRODUCTS and len(read.operands) > 1  # x A B is x (A B)
            node.several_parameters = is_chain or read.several_parameters
        if node.fan_in:
            node.weighted = True
            node.width = shape[1] if name in ops.CONVOLUTION_NAMES and len(shape) > 1 else shape[-1]
        if name in ops.ACTIVATION_NAMES and (name != "pow" or _are_whole_powers((*args[1:], *kwargs.values()))):
            node.activation = _activation(func, args, kwargs)
        if ops.writes_in_place(func) and args and args[0] is flowing[0]:
            flowing += [t._base for t in flowing if t._base is not None]  # a write into a view writes into its base
        self._add(node, flowing)

    def _split_attention(self, call: Node, width: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
        """Add the in-projection of an attention call as a node. Returns the node of the rest, the out-projection."""
        out = tuple(w for w in call.weights if ".out_proj." in f".{w}")
        into = tuple(w for w in call.weights if w not in out)
        self._add(Node(ops.IN_PROJECTION, call.inputs, into, True, call.scope, width, width), [])
        self._report_if_watched(lambda: _in_projection(*args, **kwargs))
        return Node(call.name, (len(self.graph.nodes) - 1,), out, scope=call.scope, fan_in=width)

    # -- the end of the run --------------------------------------------------------------------------------------
    def declare_output(self, output: Any, readout_index: int | None = None) -> None:
        """Declare the model's output.

        Args:
            output: What the model returned.
            readout_index: Index of the readout among the candidates. If None: `logits`, or the deepest candidate.
        """
        nodes = [next(iter(self._read_by_role([readout]).signal), ROOT) for readout in readouts_of(output)]
        if readout_index is None:
            readout_index = 0
            if len(set(nodes)) > 1 and logits_of(output) is None:
                distances = compute_distances(self.graph)
                depths = [distances[node].depth for node in nodes]
                readout_index = depths.index(max(depths))
        self.graph.readout = nodes[readout_index]


def _in_projection(*args: Any, **kwargs: Any) -> Tensor:
    """The queries, keys and values inside `multi_head_attention_forward`, as one vector: their lengths may differ."""
    given = signature(multi_head_attention_forward).bind(*args, **kwargs).arguments
    weight, bias = given["in_proj_weight"], given["in_proj_bias"]
    weights = [given.get(f"{one}_proj_weight") for one in "qkv"]
    if weight is not None:
        weights = weight.chunk(3)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    parts = zip((given["query"], given["key"], given["value"]), weights, biases, strict=True)
    return torch.cat([linear(x, w, b).flatten() for x, w, b in parts if w is not None])


def _are_whole_powers(exponents: tuple[Any, ...]) -> bool:
    """Are these whole powers, such as squares and cubes? Then q exists for every base."""
    return all(isinstance(power, int | float) and power >= 1 and power % 1 == 0 for power in exponents)


def _activation(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Activation | None:
    """A call as a function of its first argument, if all other arguments are constants."""
    # Without `training` a random slope (RReLU) is its mean.
    options = {k: v for k, v in kwargs.items() if k not in {"input", "inplace", "training"}}
    if all(isinstance(constant, int | float | str | None) for constant in (*args[1:], *options.values())):
        return Activation(function, args[1:], tuple(options.items()))
    return None


OnValue = Callable[[int, Tensor], None]  # of a node and its value


@dataclass(frozen=True)
class Watch:
    """Calls a function with the values of some nodes while a recorded run is repeated.

    For example, the energy pass repeats the run on dual tensors and reads the pre-activation of every unit.
    """

    graph: Graph  # of the first run; the repetition must have the same operations
    nodes: Collection[int]
    on_value: OnValue  # called with each of these nodes before its value can be overwritten

    def recorder(self, model: nn.Module, parameters: Mapping[str, Tensor], arguments: Arguments) -> Recorder:
        """A recorder of the repetition."""
        repeated = Recorder(
            model,
            parameters,
            integers_are_signal=self.graph.integers_are_signal,
            allow_recurrence=True,
            watch=self,
        )
        repeated.declare_inputs(arguments)
        return repeated
