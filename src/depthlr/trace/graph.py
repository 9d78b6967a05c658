"""The graph of one run of a model: operations on the signal, in the order in which they ran."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

ROOT = 0  # node 0 stands before the model's inputs, which follow it


@dataclass(frozen=True, slots=True)
class Activation:
    """A pointwise function with the constants it was called with."""

    function: Callable[..., Tensor]
    constants: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", "the activation")

    def __call__(self, z: Tensor) -> Tensor:
        return self.function(z.clone(), *self.constants, **dict(self.options))  # it may be in-place


@dataclass(slots=True)
class Node:
    """One operation whose result depends on the input through the signal path."""

    name: str  # the torch function
    inputs: tuple[int, ...]  # earlier nodes it reads, each once
    weights: tuple[str, ...] = ()  # parameters it reads directly or through views
    weighted: bool = False  # does it multiply the signal by one of them?
    scope: int = 0  # innermost module call it ran in
    width: int = 0  # features of a weighted operation's result
    fan_in: int = 0  # inputs that contribute to one of these features; 0 where that is unknown
    several_parameters: bool = False  # does a weight it multiplies by come from several parameters (weight norm, LoRA)?
    activation: Activation | None = None
    output_count: int = 0  # several if it splits a value
    factor: float = 1.0  # the constant by which it multiplies its input, or the value that it adds


@dataclass(slots=True)
class ModuleCall:
    """One call of one module."""

    path: str
    module: nn.Module | None
    parent: int
    output_node: int | None = None  # of its (first) output

    @property
    def kind(self) -> str:
        """The module's class name."""
        return type(self.module).__name__ if self.module is not None else ""


@dataclass(slots=True)
class Graph:
    """Nodes in topological order, the module calls they ran in, and the node of the readout."""

    nodes: list[Node] = field(default_factory=lambda: [Node("input", ())])
    calls: list[ModuleCall] = field(default_factory=lambda: [ModuleCall("", None, 0)])
    readout: int = ROOT
    integers_are_signal: bool = False  # are integer inputs followed as the signal, or as indices?

    def same_operations(self, other: Graph) -> bool:
        """Did both runs apply the same operations and weights to the same nodes?"""
        return self._operations() == other._operations()

    def _operations(self) -> list[tuple[Any, ...]]:
        return [(n.name, n.inputs, n.weights) for n in self.nodes]

    def path(self, node: int) -> str:
        return self.calls[self.nodes[node].scope].path

    def consumers(self) -> list[list[int]]:
        readers: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            for source in node.inputs:
                readers[source].append(index)
        return readers
