"""Distances along the minimal path, computed in one pass over the graph.

    weighted operation              1 + the nearest of its inputs
    addition of two signal values   1 + the value that is updated
    anything else                   the nearest of its inputs

An addition updates the stream: the one of its inputs on which all others depend. In `x + f(x)` the sum updates x. This
holds too if f reads other values, as cross-attention does. If the skip has a projection, as in `p(x) + f(x)`, no input
is the stream. The sum then updates x: the last value that both paths share (the common dominator of the inputs).

An addition is an update only if a weight lies between the updated value and the sum. Rotary embeddings and hand-written
normalisations add values without a weight between them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from depthlr.trace import operations as ops
from depthlr.trace.graph import ROOT, Graph, Node

LONGEST_BRANCH = 6  # the most consecutive weighted layers that count as one residual branch

Lengths = dict[int, tuple[int, int]]  # per node: the fewest and the most weighted operations on a path to it


class Dominators:
    """The dominator tree of a graph, built one node at a time in topological order.

    A node's dominator is then the nearest common ancestor of its inputs.
    """

    def __init__(self) -> None:
        self._parent = [ROOT]

    def add(self, inputs: Sequence[int]) -> None:
        """Add the next node. Its immediate dominator is `common(inputs)`."""
        self._parent.append(self.common(inputs))

    def common(self, nodes: Sequence[int]) -> int:
        """The nearest node that lies on every path to every one of `nodes`."""
        return reduce(self._common, nodes) if nodes else ROOT

    def _common(self, a: int, b: int) -> int:
        while a != b:  # an ancestor has a smaller number
            if a < b:
                a, b = b, a
            a = self._parent[a]
        return a


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a node is from the input, and the step of the minimal path that ends at it."""

    depth: int  # effective depth up to this node
    previous: int  # the previous node on the minimal path; for an update, the value that it updates
    kind: str = ""  # "plain", "residual", or "" if the node is not a unit
    skipped: int = 0  # updates that an addition passes over, or layers of one long branch; 0 for a usual branch


Distances = list[Distance]  # of every node


def compute_distances(graph: Graph, blocks: frozenset[int] = frozenset()) -> Distances:
    """Compute the distances of every node from the input.

    Args:
        graph: A recorded run.
        blocks: Indices of module calls that each count as one unit, whatever they contain.
    """
    builder = _DistanceBuilder(graph, blocks)
    for index in range(1, len(graph.nodes)):
        builder.visit(index)
    return builder.distances


class _DistanceBuilder:
    """Visits the nodes in topological order and extends the distances by one node at a time."""

    def __init__(self, graph: Graph, blocks: frozenset[int]) -> None:
        self.graph = graph
        self.distances = [Distance(0, ROOT)]
        self._tree = Dominators()
        self._enclosing = _enclosing_blocks(graph, blocks)
        self._sources = [1]  # per node: bit mask of the model inputs that it depends on
        self._start = [1]  # per node: bit of the model input where its minimal path starts

    def visit(self, index: int) -> None:
        """Add the next node."""
        node = self.graph.nodes[index]
        inputs = node.inputs or (ROOT,)
        self._tree.add(inputs)
        # In `x + f(x, condition)` the condition may be deeper than x, and x is updated nevertheless.
        stream = _stream(self.graph, inputs) if node.name in ops.ADDITIONS else None
        found = self._distance(index, self._signal_inputs(inputs) if stream is None else inputs, stream)
        self.distances.append(found)
        own_bit = 1 << index if node.name == "input" else 0
        self._sources.append(own_bit or reduce(or_, (self._sources[i] for i in inputs)))
        self._start.append(own_bit or self._start[found.previous])

    def _signal_inputs(self, inputs: Sequence[int]) -> Sequence[int]:
        """The inputs through which the minimal path may run.

        The deepest input carries the signal. Other inputs count only if they depend on the model input where the path
        of the deepest one starts. In `h * mask` the mask is a model input of its own: the path does not start there.
        """
        deepest = max(inputs, key=lambda i: self.distances[i].depth)
        return [i for i in inputs if i == deepest or self._sources[i] & self._start[deepest]]

    def _distance(self, index: int, inputs: Sequence[int], stream: Lengths | None) -> Distance:
        """The distance of a node: the end of a block, a weighted layer, an addition, or a node that is no unit."""
        node = self.graph.nodes[index]
        nearest = min(inputs, key=lambda i: self.distances[i].depth)
        depth = self.distances[nearest].depth
        block = self._enclosing[node.scope]
        if block is not None:
            if self.graph.calls[block].output_node == index:
                return self._block_step(node, inputs, nearest, stream)
        elif node.weighted:
            return Distance(depth + 1, nearest, "plain")
        elif node.name in ops.ADDITIONS and len(inputs) > 1:
            origin, lengths = self._update(inputs, stream)
            if any(lengths[i][1] for i in inputs):
                return self._update_step(inputs, origin, lengths)
        return Distance(depth, nearest)

    def _block_step(self, node: Node, inputs: Sequence[int], nearest: int, stream: Lengths | None) -> Distance:
        """The output of a block that the user declared to be one unit."""
        depth = self.distances[nearest].depth
        if node.name not in ops.ADDITIONS:
            return Distance(depth + 1, nearest, "plain")
        origin, _ = self._update(inputs, stream)
        # All nodes inside a block have the same distance, so the path may continue at the updated value.
        back = origin if self.distances[origin].depth == depth else nearest
        return Distance(depth + 1, back, "residual")

    def _update_step(self, inputs: Sequence[int], origin: int, lengths: Lengths) -> Distance:
        """An addition of branches that start at `origin`, at least one of which has weights."""
        shortest = [lengths[i][0] for i in inputs]
        # Weighted branches of equal length are parallel parts of one plain layer, not an update of a stream. Linear
        # branches of any length are too, such as a weight and its low-rank correction.
        equal = len(set(shortest)) == 1
        parallel = min(shortest) > 0 and (equal or _is_linear(self.graph, lengths, origin))
        skipped = max(_updates_between(self.graph, self.distances, lengths, origin, i) for i in inputs)
        if min(shortest) == 0 and max(shortest) > LONGEST_BRANCH:
            skipped = max(skipped, max(shortest))
        return Distance(self.distances[origin].depth + 1, origin, "plain" if parallel else "residual", skipped)

    def _update(self, inputs: Sequence[int], stream: Lengths | None) -> tuple[int, Lengths]:
        """The value that an addition updates, and the paths from it."""
        stream = stream or _stream(self.graph, inputs)  # without other inputs there may be one
        if stream is not None:
            return min(inputs), stream
        origin = self._tree.common(inputs)
        return origin, weighted_between(self.graph, origin, inputs)


def _updates_between(graph: Graph, distances: Distances, region: Container[int], origin: int, end: int) -> int:
    """Count the residual updates on the shortest path from `origin` to `end`, without values that join from outside."""
    updates, index = 0, end
    while index != origin:
        updates += distances[index].kind == "residual"
        previous = distances[index].previous
        if previous not in region:
            inside = [i for i in graph.nodes[index].inputs if i in region]
            previous = min(inside, key=lambda i: distances[i].depth)
        index = previous
    return updates


def _is_linear(graph: Graph, region: Iterable[int], origin: int) -> bool:
    """Does a region contain only weights, sums and reshapes?"""
    return all(graph.nodes[i].weighted or graph.nodes[i].name in ops.LINEAR for i in region if i != origin)


def _stream(graph: Graph, inputs: Sequence[int]) -> Lengths | None:
    """The paths from the first of these values to the others. None unless all others depend on it."""
    if len(inputs) < 2:
        return None
    lengths = weighted_between(graph, min(inputs), inputs)
    return lengths if lengths.keys() >= set(inputs) else None


def weighted_between(graph: Graph, origin: int, ends: Sequence[int]) -> Lengths:
    """The fewest and the most weighted operations on the paths from a node.

    Args:
        graph: A recorded run.
        origin: The node where the paths start.
        ends: The nodes where they end.

    Returns:
        Both numbers for every node on such a path.
    """
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
            fewest, most = zip(*reached, strict=True)
            counts[index] = (min(fewest) + node.weighted, max(most) + node.weighted)
    return counts


def _enclosing_blocks(graph: Graph, blocks: frozenset[int]) -> list[int | None]:
    """For each module call, the outermost of `blocks` that contains it."""
    inside: list[int | None] = [None]
    for index, call in enumerate(graph.calls[1:], 1):
        block = inside[call.parent]
        if block is None and index in blocks:
            block = index
        inside.append(block)
    return inside
