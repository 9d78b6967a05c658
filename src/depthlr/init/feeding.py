"""The activation that feeds a weight, found behind it in a recorded run, and its gating factor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations

from torch import Tensor
from torch.nn import functional as F

from depthlr.errors import DepthlrError
from depthlr.init.gating import Pointwise, gating_factor
from depthlr.trace import operations as ops
from depthlr.trace.graph import Activation, Graph, Node

FRESH_SLOPE = 0.25  # of nn.PReLU


@lru_cache(maxsize=256)  # a deep model asks for the same activations at every layer
def _factor(steps: tuple[Pointwise, ...]) -> float:
    """q of activations that follow one another."""

    def in_turn(z: Tensor) -> Tensor:
        for step in steps:
            z = step(z)
        return z

    return gating_factor(steps[0] if len(steps) == 1 else in_turn)


def feeding_factor(graph: Graph, index: int, *, he: bool) -> float:
    """q of the activation whose output a weight reads, or He's 1/2; 1 where none does (inputs, norms, streams)."""
    pending = list(graph.nodes[index].inputs)
    while pending:
        source = pending.pop()
        steps = _activations(graph, source)
        if steps:
            return 0.5 if he else _factor(steps)
        if graph.nodes[source].name in ops.TRANSPARENT:
            pending.extend(graph.nodes[source].inputs)
    return 1.0


def _activations(graph: Graph, index: int) -> tuple[Pointwise, ...]:
    """The activations that made a value in a row, as relu(x) ** 2 is made of two."""
    steps: list[Pointwise] = []
    while (found := _activation(graph, index)) is not None:
        step, before = found
        steps.insert(0, step)
        if before is None:
            break
        index = before
        while graph.nodes[index].name in ops.TRANSPARENT and len(graph.nodes[index].inputs) == 1:
            (index,) = graph.nodes[index].inputs
    return tuple(steps)


def _activation(graph: Graph, index: int) -> tuple[Pointwise, int | None] | None:
    """The last activation that made a value, and the value it was given where that is known.

    It is a torch function, a scripted function, a module that writes one out (as GELU variants do), or the product of a
    value and its own activation, as in x * sigmoid(x).
    """
    node = graph.nodes[index]
    call = graph.calls[node.scope]
    written_out = call.output == index and node.name in ops.MULTIPLICATIONS
    if written_out and call.module is not None and not list(call.module.parameters()) and _is_pointwise(call.module):
        return call.module, None
    function = _function(node)
    if function is not None:
        return function, node.inputs[0]
    if node.name in ops.ELEMENTWISE_PRODUCTS:
        for value, gate in permutations(node.inputs, 2):
            function = _function(graph.nodes[gate])
            whole = graph.nodes[value].outputs < 2  # a gated linear unit multiplies one half by the other
            if function is not None and graph.nodes[gate].inputs == (value,) and whole:
                return SelfGated(function), value
    return None


def _function(node: Node) -> Pointwise | None:
    """The activation that an operation is; a scripted one may be anything, and is tried."""
    scripted = node.call == 0
    return node.activation if node.activation and (not scripted or _is_pointwise(node.activation)) else None


def _is_pointwise(function: Pointwise) -> bool:
    try:
        _factor((function,))
    except DepthlrError:
        return False
    return True


@dataclass(frozen=True)
class SelfGated:
    """z sigma(z): SiLU, where sigma is the sigmoid."""

    gate: Pointwise

    def __call__(self, z: Tensor) -> Tensor:
        return z * self.gate(z)


def with_slope(node: Node, parameters: Mapping[str, Tensor]) -> Node:
    """PReLU as the leaky ReLU of the same q: a trace does not see its slopes, whose mean square alone enters."""
    if node.name != "prelu" or not node.weights:
        return node
    slopes = parameters.get(node.weights[0])
    slope = FRESH_SLOPE
    if slopes is not None and not slopes.is_meta:
        slope = float(slopes.detach().double().square().mean().sqrt())
    return replace(node, activation=Activation(F.leaky_relu, (slope,)))
