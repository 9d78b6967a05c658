"""The depth units of a model: the layers and updates on its minimal path, and the tensor that represents each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from depthlr.trace import operations as ops
from depthlr.trace.distances import Distances, weighted_between
from depthlr.trace.graph import ROOT, Graph


@dataclass(frozen=True)
class Unit:
    """One depth unit: a plain weighted layer or one residual update."""

    kind: str  # "plain" or "residual"
    role: str  # "stem", "body" or "head"
    path: str  # the module in which it happens
    branch: str  # the last weighted layer in it
    width: int  # its features
    node: int  # where it happens in the graph
    state: int  # the node whose value is its pre-activation: the norm that follows the unit, else the unit itself


def units_of(graph: Graph, distances: Distances) -> tuple[Unit, ...]:
    """The units from input to readout.

    Args:
        graph: A recorded run.
        distances: The distances of its nodes.
    """
    chain = [n for n in _walk_back(graph.readout, distances) if distances[n].kind][::-1]
    units = []
    for n, state in zip(chain, _states(graph, distances, chain), strict=True):
        ends = (n,) if graph.nodes[n].weighted else last_weighted(graph, distances, n)
        last = ends[0] if ends else n
        units.append(
            Unit(distances[n].kind, "body", graph.path(n), graph.path(last), graph.nodes[last].width, n, state)
        )
    return _with_roles(units)


def _states(graph: Graph, distances: Distances, chain: list[int]) -> list[int]:
    """The node of each unit's pre-activation: the norm that follows the unit, or the unit itself if none does.

    In a post-LN stack a norm follows every update. In a pre-LN stack, one follows the last update of each stage: the
    norm of the head, or of the next stage. It is not part of this update, so the other updates decide which case it is.
    """
    readers = graph.consumers()
    following_norms = {n: _following_norm(graph, readers, n) for n in chain}
    norms = {n: norm for n, norm in following_norms.items() if norm is not None}
    updates = [n for n in chain if distances[n].kind == "residual"]
    goes_on = {n for n, following in pairwise(chain) if _adds_to_stream(graph, distances, following)}
    stage_ends = {n for n in updates if n in norms and n not in goes_on}
    others = [n for n in updates if n not in stage_ends] or updates[:-1]
    is_post_norm = 2 * sum(n in norms for n in others) > len(others)
    if not is_post_norm:
        for n in stage_ends:
            del norms[n]
    return [norms.get(n, n) for n in chain]


def _adds_to_stream(graph: Graph, distances: Distances, unit: int) -> bool:
    """Is a unit an update that adds to the stream itself, and not to a projection of it?"""
    if distances[unit].kind != "residual":
        return False
    inputs = graph.nodes[unit].inputs
    lengths = weighted_between(graph, distances[unit].previous, inputs)
    return any(lengths[i].least == 0 for i in inputs if i in lengths)


def _walk_back(node: int, distances: Distances) -> list[int]:
    path = []
    while node != ROOT:
        path.append(node)
        node = distances[node].previous
    return path


def _with_roles(units: list[Unit]) -> tuple[Unit, ...]:
    """A plain last layer is the head. A plain first layer is the stem if the model has residual updates.

    In a plain stack the first layer belongs to the body.
    """
    roles = ["body"] * len(units)
    if len(units) > 1 and units[-1].kind == "plain":
        roles[-1] = "head"
    if any(u.kind == "residual" for u in units) and units[0].kind == "plain":
        roles[0] = "stem"
    return tuple(replace(u, role=role) for u, role in zip(units, roles, strict=True))


def _following_norm(graph: Graph, readers: list[list[int]], node: int) -> int | None:
    """The norm that is the only reader of a value, as in post-LN or convolution + BatchNorm. Reshapes are ignored."""
    while len(readers[node]) == 1 and graph.nodes[readers[node][0]].name in ops.TRANSPARENT:
        node = readers[node][0]
    following = readers[node]
    if not following:
        return None
    first = graph.nodes[following[0]]
    if len(following) == 1 and first.name in ops.NORMS:
        return following[0]
    # A norm of elementary operations: all readers belong to one call of a module with Norm in its class name.
    call = graph.calls[first.scope]
    whole = "Norm" in call.kind and all(graph.nodes[r].scope == first.scope for r in following)
    if whole and not any(n.weighted for n in graph.nodes if _within(graph, n.scope, first.scope)):
        return call.output_node
    return None


def _within(graph: Graph, scope: int, outer: int) -> bool:
    """Is a module call inside another, or the same?"""
    while scope > outer:
        scope = graph.calls[scope].parent
    return scope == outer


def last_weighted(graph: Graph, distances: Distances, update: int) -> tuple[int, ...]:
    """The weighted operations that end the branches of a residual update.

    Args:
        graph: A recorded run.
        distances: The distances of its nodes.
        update: The node of the addition.
    """
    origin, inputs = distances[update].previous, graph.nodes[update].inputs
    lengths = weighted_between(graph, origin, inputs)
    parts = [i for i in inputs if i in lengths]  # a factor of the branch may come from outside (addcmul)
    longest = max(lengths[i].most for i in parts)
    # If the skip has a projection, the branch is the longer of the two.
    pending = [i for i in parts if lengths[i].most == longest]
    found: dict[int, None] = {}
    while pending:
        index = pending.pop()
        node = graph.nodes[index]
        if node.weighted:
            found[index] = None
        else:
            before = node.inputs if node.name in ops.ADDITIONS else (_carrier(graph, distances, index),)
            pending.extend(i for i in before if i in lengths and i != origin)
    return tuple(found)


def _carrier(graph: Graph, distances: Distances, index: int) -> int:
    """The input that carries the signal. A gate only scales the signal (routers, highways) and does not count."""
    inputs = graph.nodes[index].inputs
    ungated = [i for i in inputs if not _is_gate(graph, i)]
    if 0 < len(ungated) < len(inputs):
        return min(ungated, key=lambda i: distances[i].depth)
    return distances[index].previous


def _is_gate(graph: Graph, index: int) -> bool:
    """Is this value the output of a sigmoid, a softmax or another gate function?"""
    while graph.nodes[index].name in ops.TRANSPARENT and len(graph.nodes[index].inputs) == 1:
        index = graph.nodes[index].inputs[0]
    return graph.nodes[index].name in ops.GATES


def branch_weighted(graph: Graph, distances: Distances, update: int) -> tuple[int, ...]:
    """Every weighted operation between a residual update and the value it updates.

    Args:
        graph: A recorded run.
        distances: The distances of its nodes.
        update: The node of the addition.
    """
    origin = distances[update].previous
    lengths = weighted_between(graph, origin, graph.nodes[update].inputs)
    return tuple(i for i in lengths if graph.nodes[i].weighted and i != origin)
