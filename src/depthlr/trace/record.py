"""Watching a model run: a torch-function mode that writes down every operation on the signal.

The *signal* starts at the floating-point inputs, and at look-ups of parameters by integer inputs (token ids). Integer
and boolean values (masks, positions) are followed only as indices, so that a mask added to attention scores is not
taken for a residual branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_modules
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from depthlr.errors import DepthlrError
from depthlr.trace import operations as ops
from depthlr.trace.graph import ROOT, Activation, Graph, ModuleCall, Node
from depthlr.trace.unwrap import clean_path

Observer = Callable[[int, Tensor], None]


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor in nested lists, tuples, mappings and dataclasses, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from tensors_in(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for item in fields(value):
            yield from tensors_in(getattr(value, item.name))


def readout_of(output: Any) -> Tensor:
    """The network's output tensor: the first floating one that is not a scalar (a loss)."""
    candidates = [t for t in tensors_in(output) if t.is_floating_point() or t.is_complex()]
    for tensor in candidates:
        if tensor.dim() > 0:
            return tensor
    if candidates:
        return candidates[0]
    raise DepthlrError(
        f"the model returned {type(output).__name__} without a floating-point tensor, so it has no readout to measure."
    )


class Recorder(TorchFunctionMode):
    """Builds a Graph while active; `observe(node, tensor)` is called with every result as it is made."""

    def __init__(
        self,
        model: nn.Module,
        parameters: Mapping[str, Tensor],
        *,
        observe: Observer | None = None,
        integers_are_signal: bool = False,
        allow_recurrence: bool = False,
    ) -> None:
        super().__init__()
        self.graph = Graph()
        self._observe = observe
        self._integers_are_signal = integers_are_signal
        self._allow_recurrence = allow_recurrence
        self._paths = {id(m): clean_path(name) for name, m in model.named_modules()}
        self._signal: Any = WeakTensorKeyDictionary()  # tensor -> node that made it
        self._index: Any = WeakTensorKeyDictionary()  # integer tensor -> node it comes from
        self._weight: Any = WeakTensorKeyDictionary()  # tensor -> names of the parameters it comes from
        self._constant: Any = WeakTensorKeyDictionary()  # tensors made by visible operations from none of these
        for name, tensor in parameters.items():
            self._weight[tensor] = (clean_path(name),)
        self._stack = [0]
        self._hooks: list[Any] = []

    # -- lifetime ------------------------------------------------------------------------------------------------
    def __enter__(self) -> Recorder:
        self._hooks = [
            torch_modules.register_module_forward_pre_hook(self._enter_module),
            torch_modules.register_module_forward_hook(self._leave_module),
        ]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        for hook in self._hooks:
            hook.remove()

    def feed(self, inputs: Any) -> None:
        """Declare the model's inputs: the root of the graph."""
        for tensor in tensors_in(inputs):
            table = self._signal if self._flows(tensor) else self._index
            table[tensor] = ROOT

    def close(self, output: Any) -> Tensor:
        """Declare the model's output; returns the readout."""
        readout = readout_of(output)
        self.graph.readout = self._signal.get(readout, ROOT)
        return readout

    # -- modules -------------------------------------------------------------------------------------------------
    def _enter_module(self, module: nn.Module, args: Any) -> None:
        path = self._paths.get(id(module))
        if path is None:  # a module made during the forward pass
            path = self.graph.calls[self._stack[-1]].path
        self.graph.calls.append(ModuleCall(path, module, self._stack[-1]))
        self._stack.append(len(self.graph.calls) - 1)

    def _leave_module(self, module: nn.Module, args: Any, output: Any) -> None:
        # An exception the model caught itself can leave calls open above this one.
        while len(self._stack) > 1 and self.graph.calls[self._stack[-1]].module is not module:
            self._stack.pop()
        with torch._C.DisableTorchFunction():
            results = [t for t in tensors_in(output) if self._flows(t)]
            sources = self._known(args, self._signal)
            for tensor in results:
                # A kernel that torch functions cannot see made this: join it to what went in.
                if sources and not any(tensor in t for t in (self._signal, self._index, self._weight, self._constant)):
                    own = tuple(clean_path(n) for n, _ in module.named_parameters())
                    self._add(Node(type(module).__name__, sources, own, bool(own), self._stack[-1]), tensor)
            call = self.graph.calls[self._stack[-1]]
            call.output = next((self._signal[t] for t in results if t in self._signal), None)
        if len(self._stack) > 1:
            self._stack.pop()

    # -- operations ----------------------------------------------------------------------------------------------
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ops.RECURRENT and not self._allow_recurrence:
            raise DepthlrError(
                f"the model is recurrent ({name}): the law covers non-recurrent models, and depth along time is not "
                "counted; pass units= with the classes or the number of units to count it your way."
            )
        arguments = list(tensors_in((args, kwargs)))
        weights = self._names(arguments)
        sources = self._known(arguments, self._signal)
        indices = self._known(arguments, self._index)
        result = func(*args, **kwargs)
        outputs = list(tensors_in(result))
        if name == "__setitem__":
            outputs = [args[0]]  # written in place; nothing is returned
        if not outputs:
            return result
        if name in ops.SHAPE_ONLY or not (sources or indices or weights):
            for tensor in outputs:
                self._constant[tensor] = True
            return result
        lookup = name in ops.LOOKUPS and bool(indices and weights) and not sources
        if sources or lookup:
            self._record(func, name, args, kwargs, sources or indices, weights, lookup, outputs)
        elif indices:
            for tensor in outputs:
                self._index[tensor] = indices[0]
        else:
            for tensor in outputs:
                self._weight[tensor] = weights
        return result

    def _record(
        self,
        func: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        sources: tuple[int, ...],
        weights: tuple[str, ...],
        lookup: bool,
        outputs: list[Tensor],
    ) -> None:
        floating = [t for t in outputs if self._flows(t)]
        for tensor in outputs:
            if not self._flows(tensor):
                self._index[tensor] = sources[0]
        if not floating:
            return
        node = Node(name, sources, weights, scope=self._stack[-1])
        node.fan_in = 1 if lookup else self._fan_in(name, args, kwargs) if weights else 0
        node.weighted = node.fan_in > 0
        if name == "multi_head_attention_forward":  # Python code that modes see as one call: in- and out-projection
            out = tuple(w for w in weights if ".out_proj." in f".{w}")
            into = tuple(w for w in weights if w not in out)
            width = floating[0].shape[-1]
            self._add(Node(name, sources, into, True, node.scope, width, width))
            node = Node(name, (len(self.graph.nodes) - 1,), out, True, node.scope, width, width)
        if node.weighted:
            shape = floating[0].shape or (1,)
            node.width = shape[1] if name in ops.CONVOLUTIONS and len(shape) > 1 else shape[-1]
        if name in ops.ACTIVATIONS:
            options = {k: v for k, v in kwargs.items() if k not in {"input", "inplace"}}
            if not any(True for _ in tensors_in((args[1:], options))):
                node.activation = Activation(func, args[1:], tuple(options.items()))
        self._add(node, *floating)

    def _fan_in(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Inputs to one feature where this call multiplies the signal by a parameter; 0 where it does not."""
        operands = [t for t in tensors_in((args, kwargs)) if t in self._weight and t not in self._signal]
        if name in ops.RECURRENT_CELLS or name in ops.RECURRENT:
            return int(operands[0].shape[-1])
        if name in ops.MATRIX_WITH_BIAS:
            operands = [t for t in operands if t.dim() > 1]  # a bias is added, not multiplied
        elif name not in ops.MATRIX_PRODUCTS:
            return 0
        if not operands:
            return 0
        weight = operands[0]
        if name in ops.TRANSPOSED_CONVOLUTIONS:
            return weight[:, 0].numel()
        if name in ops.MATRIX_WITH_BIAS and name in ops.OUTPUT_FIRST:
            return weight[0].numel()
        factors = [t for t in tensors_in(args) if t.dim() > 1 or name in ops.MATRIX_PRODUCTS]
        right = len(factors) < 2 or factors[-1] is weight
        return int(weight.shape[-2] if right and weight.dim() > 1 else weight.shape[-1])

    def _add(self, node: Node, *outputs: Tensor) -> None:
        self.graph.nodes.append(node)
        index = len(self.graph.nodes) - 1
        for tensor in outputs:
            self._signal[tensor] = index
            self._weight.pop(tensor, None)
        if self._observe is not None and outputs:
            self._observe(index, outputs[0])

    def _flows(self, tensor: Tensor) -> bool:
        """Can this tensor carry the signal, or only an index or a mask?"""
        integers = self._integers_are_signal and tensor.dtype != torch.bool
        return tensor.is_floating_point() or tensor.is_complex() or integers

    def _known(self, values: Any, table: Any) -> tuple[int, ...]:
        return tuple(dict.fromkeys(table[t] for t in tensors_in(values) if t in table))

    def _names(self, values: list[Tensor]) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for tensor in values:
            if isinstance(tensor, nn.Parameter) and tensor not in self._weight:  # gathered by FSDP during the run
                self._weight[tensor] = (f"{self.graph.calls[self._stack[-1]].path}.{len(self._weight)}",)
            names.update(dict.fromkeys(self._weight.get(tensor, ())))
        return tuple(names)
