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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from depthlr.trace import operations as ops
from depthlr.trace.graph import ROOT, Graph, Node

LONGEST_BRANCH = 6  # the most consecutive weighted layers that count as one residual branch


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


class Length(NamedTuple):
    """The numbers of weighted operations on the paths from one node to another."""

    least: int  # on the path with the fewest
    most: int  # on the path with the most


Lengths = dict[int, Length]  # of the paths from one node, by the node where they end


class Update(NamedTuple):
    """What an addition updates. In `x + W2 relu(W1 x)` x has the lengths (0, 0), and the branch has (2, 2)."""

    origin: int  # the value that is updated
    lengths: Lengths  # of the paths from there to the terms of the sum


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
        self._model_inputs = [{ROOT}]  # per node: the model inputs that it depends on
        self._start = [ROOT]  # per node: the model input where its minimal path starts

    def visit(self, index: int) -> None:
        """Add the next node."""
        node = self.graph.nodes[index]
        inputs = node.inputs or (ROOT,)
        self._tree.add(inputs)
        # In `x + f(x, condition)` the condition may be deeper than x, and x is updated nevertheless.
        update = _update_of_stream(self.graph, inputs) if node.name in ops.ADDITIONS else None
        found = self._distance(index, inputs if update else self._signal_inputs(inputs), update)
        self.distances.append(found)
        if node.name == "input":
            self._model_inputs.append({index})
            self._start.append(index)
        else:
            self._model_inputs.append(set().union(*(self._model_inputs[i] for i in inputs)))
            self._start.append(self._start[found.previous])

    def _depth(self, index: int) -> int:
        return self.distances[index].depth

    def _signal_inputs(self, inputs: Sequence[int]) -> Sequence[int]:
        """The inputs through which the minimal path may run.

        The deepest input carries the signal. Other inputs count only if they depend on the model input where the path
        of the deepest one starts. In `h * mask` the mask is a model input of its own: the path does not start there.
        """
        deepest = max(inputs, key=self._depth)
        return [i for i in inputs if i == deepest or self._start[deepest] in self._model_inputs[i]]

    def _distance(self, index: int, inputs: Sequence[int], update: Update | None) -> Distance:
        """The distance of a node: the end of a block, a weighted layer, an addition, or a node that is no unit."""
        node = self.graph.nodes[index]
        nearest = min(inputs, key=self._depth)
        depth = self._depth(nearest)
        block = self._enclosing[node.scope]
        if block is not None:
            if self.graph.calls[block].output_node == index:
                return self._end_of_block(node, inputs, nearest, update)
        elif node.weighted:
            return Distance(depth + 1, nearest, "plain")
        elif node.name in ops.ADDITIONS and len(inputs) > 1:
            update = update or self._update(inputs)
            if any(update.lengths[i].most for i in inputs):
                return self._addition(inputs, update)
        return Distance(depth, nearest)

    def _end_of_block(self, node: Node, inputs: Sequence[int], nearest: int, update: Update | None) -> Distance:
        """The output of a block that the user declared to be one unit."""
        depth = self._depth(nearest)
        if node.name not in ops.ADDITIONS:
            return Distance(depth + 1, nearest, "plain")
        origin = (update or self._update(inputs)).origin
        # All nodes inside a block have the same distance, so the path may continue at the updated value.
        return Distance(depth + 1, origin if self._depth(origin) == depth else nearest, "residual")

    def _addition(self, inputs: Sequence[int], update: Update) -> Distance:
        """An addition with a weight on at least one of its branches."""
        lengths = [update.lengths[i].least for i in inputs]
        shortest, longest = min(lengths), max(lengths)
        # Weighted branches of equal length are parallel parts of one plain layer, not an update of a stream. Linear
        # branches of any length are too, such as a weight and its low-rank correction.
        parallel = shortest > 0 and (shortest == longest or self._is_linear(update))
        skipped = max(self._residual_updates(update, i) for i in inputs)
        if shortest == 0 and longest > LONGEST_BRANCH:
            skipped = max(skipped, longest)
        kind = "plain" if parallel else "residual"
        return Distance(self._depth(update.origin) + 1, update.origin, kind, skipped)

    def _update(self, inputs: Sequence[int]) -> Update:
        """What an addition of signal values updates: one of them, or the last value that all of them share."""
        origin = self._tree.common(inputs)
        return _update_of_stream(self.graph, inputs) or Update(origin, weighted_between(self.graph, origin, inputs))

    def _residual_updates(self, update: Update, term: int) -> int:
        """Count the residual updates on the shortest path from the updated value to a term of the sum."""
        count, index = 0, term
        while index != update.origin:
            count += self.distances[index].kind == "residual"
            previous = self.distances[index].previous
            if previous not in update.lengths:  # it joins the branch from elsewhere
                previous = min((i for i in self.graph.nodes[index].inputs if i in update.lengths), key=self._depth)
            index = previous
        return count

    def _is_linear(self, update: Update) -> bool:
        """Do the branches contain only weights, sums and reshapes?"""
        between = (self.graph.nodes[i] for i in update.lengths if i != update.origin)
        return all(node.weighted or node.name in ops.LINEAR for node in between)


def _update_of_stream(graph: Graph, inputs: Sequence[int]) -> Update | None:
    """The update of the first of these values. None unless all others depend on it."""
    if len(inputs) < 2:
        return None
    stream = min(inputs)
    lengths = weighted_between(graph, stream, inputs)
    return Update(stream, lengths) if lengths.keys() >= set(inputs) else None


def weighted_between(graph: Graph, origin: int, ends: Sequence[int]) -> Lengths:
    """Count the weighted operations on the paths from a node.

    Args:
        graph: A recorded run.
        origin: The node where the paths start.
        ends: The nodes where they end.

    Returns:
        The least and the largest number for every node on such a path.
    """
    before, pending = set(ends), list(ends)  # what the ends depend on, down to the origin
    while pending:
        for source in graph.nodes[pending.pop()].inputs:
            if source >= origin and source not in before:
                before.add(source)
                pending.append(source)
    lengths = {origin: Length(0, 0)}
    for index in sorted(before - {origin}):
        node = graph.nodes[index]
        reached = [lengths[i] for i in node.inputs if i in lengths]
        if reached:
            least = min(length.least for length in reached)
            most = max(length.most for length in reached)
            lengths[index] = Length(least + node.weighted, most + node.weighted)
    return lengths


def _enclosing_blocks(graph: Graph, blocks: frozenset[int]) -> list[int | None]:
    """For each module call, the outermost of `blocks` that contains it."""
    inside: list[int | None] = [None]
    for index, call in enumerate(graph.calls[1:], 1):
        block = inside[call.parent]
        if block is None and index in blocks:
            block = index
        inside.append(block)
    return inside
