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

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from depthlr.trace import operations as ops
from depthlr.trace.graph import ROOT, Graph

LONGEST_BRANCH = 6  # weighted layers in a row that still count as the inside of one residual branch


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
    skipped: list[int]  # updates or layers that a residual update's skip passes over, where they are too many


def distances(graph: Graph, blocks: frozenset[int] = frozenset()) -> Distances:
    """Distances of every node; `blocks` are module calls that count as one unit each, whatever is inside."""
    tree = Dominators()
    units, back, kind, skipped = [0], [ROOT], [""], [0]
    far = Distances(units, back, kind, skipped)  # grows with these
    reached = [1]  # which of the model's inputs a node depends on, as bits
    lead = [1]  # the bit of the input at which its minimal path begins
    inside = _enclosing(graph, blocks)
    for index, node in enumerate(graph.nodes[1:], 1):
        everything = node.inputs or (ROOT,)
        tree.add(everything)
        # The deepest value is the signal; what does not even depend on its input (a mask, a graph, a condition that
        # scales the last layer) only joins it, and offers no shorter path.
        deepest = max(everything, key=lambda i: units[i])
        inputs = [i for i in everything if i == deepest or reached[i] & lead[deepest]]
        if node.name in ops.ADDITIONS and _stream(graph, everything) is not None:
            inputs = list(everything)  # a branch that has joined something deeper still updates the stream it left
        nearest = min(inputs, key=lambda i: units[i])
        here, step, what, over = units[nearest], nearest, "", 0
        block = inside[node.scope]
        if block is not None:
            if graph.calls[block].output == index:
                here, what = here + 1, "residual" if node.name in ops.ADDITIONS else "plain"
                origin = _updated(graph, tree, inputs)
                if what == "residual" and units[origin] == units[nearest]:
                    step = origin  # inside a block all are equally near
        elif node.weighted:
            here, what = here + 1, "plain"
        elif node.name in ops.ADDITIONS and len(inputs) > 1:
            origin = _updated(graph, tree, inputs)
            lengths = weighted_between(graph, origin, inputs)
            shortest, longest = [lengths[i][0] for i in inputs], [lengths[i][1] for i in inputs]
            if max(longest):
                here, step = units[origin] + 1, origin
                # Equally long weighted branches are one plain layer in parallel parts, not an update of a stream; so
                # are linear ones of any length, such as a weight and its low-rank correction.
                parts = min(shortest) > 0 and (len(set(shortest)) == 1 or _linear(graph, lengths, origin))
                what = "plain" if parts else "residual"
                over = max(_updates_between(graph, far, lengths, origin, i) for i in inputs)
                if min(shortest) == 0 and max(shortest) > LONGEST_BRANCH:
                    over = max(over, max(shortest))
        bits = 1 << index if node.name == "input" else 0
        reached.append(bits or _union(reached[i] for i in everything))
        lead.append(bits or lead[step] or lead[deepest])
        units.append(here)
        back.append(step)
        kind.append(what)
        skipped.append(over)
    return far


def _updates_between(graph: Graph, far: Distances, region: Container[int], origin: int, end: int) -> int:
    """Residual updates on the shortest way from `origin` to `end`; what joins from elsewhere is not passed over."""
    updates, index = 0, end
    while index != origin:
        updates += far.kind[index] == "residual"
        inside = [i for i in graph.nodes[index].inputs if i in region]
        index = far.back[index] if far.back[index] in region else min(inside, key=lambda i: far.units[i])
    return updates


def _linear(graph: Graph, region: Iterable[int], origin: int) -> bool:
    """Does nothing but weights, sums and reshapes lie in a region?"""
    return all(graph.nodes[i].weighted or graph.nodes[i].name in ops.LINEAR for i in region if i != origin)


def _union(bits: Iterable[int]) -> int:
    return reduce(or_, bits, 0)


def _updated(graph: Graph, tree: Dominators, inputs: Sequence[int]) -> int:
    """The value that an addition updates."""
    stream = _stream(graph, inputs)
    return tree.common(inputs) if stream is None else stream


def _stream(graph: Graph, inputs: Sequence[int]) -> int | None:
    """The one among these values from which all others come."""
    first = min(inputs)
    between = weighted_between(graph, first, inputs)
    return first if len(inputs) > 1 and all(i in between for i in inputs) else None


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
