"""Distances along the minimal path, in one pass over the graph.

    weighted operation              1 + the nearest of its inputs
    addition of two signal values   1 + the value that is updated
    anything else                   the nearest of its inputs

The value that an addition updates is the one among its inputs from which the others come (the stream; conditioning such
as cross-attention may join the branch from elsewhere), or else, where the skip has a projection, the nearest value that
every path to it passes: its inputs' common dominator. An addition is an update only if weights lie between; rotary
embeddings and normalisations written out by hand add values that no weight separates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from depthlr.trace import operations as ops
from depthlr.trace.graph import ROOT, Graph


class Dominators:
    """The dominator tree of a graph, grown a node at a time in topological order.

    A node's dominator is then the lowest common ancestor of its inputs; skew-binary jump pointers find it in O(log n).
    """

    def __init__(self) -> None:
        self._parent, self._level, self._jump = [ROOT], [0], [ROOT]

    def add(self, inputs: Sequence[int]) -> int:
        """Add the next node; returns its immediate dominator."""
        parent = self.common(inputs)
        jump = self._jump[parent]
        equal = self._level[parent] - self._level[jump] == self._level[jump] - self._level[self._jump[jump]]
        self._parent.append(parent)
        self._level.append(self._level[parent] + 1)
        self._jump.append(self._jump[jump] if equal else parent)
        return parent

    def common(self, nodes: Sequence[int]) -> int:
        """The nearest node through which every path to every one of these passes."""
        return reduce(self._common, nodes) if nodes else ROOT

    def _common(self, a: int, b: int) -> int:
        level, jump, parent = self._level, self._jump, self._parent
        if level[a] < level[b]:
            a, b = b, a
        while level[a] > level[b]:
            a = jump[a] if level[jump[a]] >= level[b] else parent[a]
        while a != b:
            a, b = (jump[a], jump[b]) if jump[a] != jump[b] else (parent[a], parent[b])
        return a


@dataclass(frozen=True)
class Distances:
    """Per node: units from the input, and where the minimal path goes next."""

    units: list[int]  # effective depth up to here
    back: list[int]  # the node before it on the minimal path; for an update, the value it updates
    kind: list[str]  # "plain", "residual" or "" where the node is no unit of its own
    skipped: list[int]  # residual updates that a residual update's branch contains itself


def distances(graph: Graph, blocks: frozenset[int] = frozenset()) -> Distances:
    """Distances of every node; `blocks` are module calls that count as one unit each, whatever is inside."""
    tree = Dominators()
    units, back, kind, skipped = [0], [ROOT], [""], [0]
    residuals = [0]  # residual updates on the minimal path
    inside = _enclosing(graph, blocks)
    for index, node in enumerate(graph.nodes[1:], 1):
        inputs = node.inputs or (ROOT,)
        tree.add(inputs)
        nearest = min(inputs, key=lambda i: units[i])
        here, step, what, over = units[nearest], nearest, "", 0
        block = inside[node.scope]
        if block is not None:
            if graph.calls[block].output == index:
                here, what = here + 1, "residual" if node.name in ops.ADDITIONS else "plain"
        elif node.weighted:
            here, what = here + 1, "plain"
        elif node.name in ops.ADDITIONS and len(inputs) > 1:
            origin = _updated(graph, tree, inputs)
            lengths = weighted_between(graph, origin, inputs)
            shortest, longest = [lengths[i][0] for i in inputs], [lengths[i][1] for i in inputs]
            if max(longest):
                here, step = units[origin] + 1, origin
                # Equally long weighted branches are one plain layer in parallel parts, not an update of a stream.
                what = "residual" if min(shortest) == 0 or len(set(shortest)) > 1 else "plain"
                over = max(residuals[i] for i in inputs) - residuals[origin]
        units.append(here)
        back.append(step)
        kind.append(what)
        skipped.append(over)
        residuals.append(residuals[step] + (what == "residual"))
    return Distances(units, back, kind, skipped)


def _updated(graph: Graph, tree: Dominators, inputs: Sequence[int]) -> int:
    """The value that an addition updates."""
    stream = min(inputs)
    between = weighted_between(graph, stream, inputs)
    return stream if all(i in between for i in inputs) else tree.common(inputs)


def weighted_between(graph: Graph, origin: int, ends: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Fewest and most weighted operations from `origin` to every node that lies between it and `ends`."""
    region, pending = set(ends), list(ends)
    while pending:
        for source in graph.nodes[pending.pop()].inputs:
            if source >= origin and source not in region:
                region.add(source)
                pending.append(source)
    counts = {origin: (0, 0)}
    for index in sorted(region - {origin}):
        node = graph.nodes[index]
        reached = [counts[i] for i in node.inputs if i in counts]
        if reached:
            fewest, most = min(r[0] for r in reached), max(r[1] for r in reached)
            counts[index] = (fewest + node.weighted, most + node.weighted)
    return counts


def _enclosing(graph: Graph, blocks: frozenset[int]) -> list[int | None]:
    """For each module call, the outermost of `blocks` around it."""
    inside: list[int | None] = [None]
    for index, call in enumerate(graph.calls[1:], 1):
        outer = inside[call.parent]
        inside.append(outer if outer is not None else index if index in blocks else None)
    return inside
