"""The depth units of a model: what lies on its minimal path, and the tensor that stands for each unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from depthlr.trace import operations as ops
from depthlr.trace.distance import Distances, weighted_between
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
    state: int  # node of its pre-activation: after the norm that follows it, if one does


def units_of(graph: Graph, far: Distances) -> tuple[Unit, ...]:
    """The units from input to readout."""
    chain = [n for n in _walk_back(graph.readout, far) if far.kind[n]][::-1]
    units = []
    for n, state in zip(chain, _states(graph, far, chain), strict=True):
        ends = (n,) if graph.nodes[n].weighted else last_weighted(graph, far, n)
        last = ends[0] if ends else n
        units.append(Unit(far.kind[n], "body", graph.path(n), graph.path(last), graph.nodes[last].width, n, state))
    return _with_roles(units)


def _states(graph: Graph, far: Distances, chain: list[int]) -> list[int]:
    """Where each unit's pre-activation is: at the norm that follows it, if one does, or else at the unit itself."""
    readers = graph.consumers()
    normed = {n: _following_norm(graph, readers, n) for n in chain}
    residual = [n for n in chain if far.kind[n] == "residual"]
    # The norm that ends a pre-LN stack, or a stage of it, does not make the update before it post-LN: the stream is not
    # carried on behind it, and the other updates decide.
    carried_on = {n for n, then in pairwise(chain) if far.kind[then] == "residual" and _has_bare_skip(graph, far, then)}
    ends = [n for n in residual if normed[n] is not None and n not in carried_on]
    deciding = [n for n in residual if n not in ends] or residual[:-1]
    if sum(normed[n] is not None for n in deciding) * 2 <= len(deciding):
        normed |= dict.fromkeys(ends)
    return [n if (after := normed[n]) is None else after for n in chain]


def _has_bare_skip(graph: Graph, far: Distances, update: int) -> bool:
    """Does it add to a value as it is, not to a projection of it?"""
    inputs = graph.nodes[update].inputs
    lengths = weighted_between(graph, far.back[update], inputs)
    return any(lengths[i][0] == 0 for i in inputs if i in lengths)


def _walk_back(node: int, far: Distances) -> list[int]:
    path = []
    while node != ROOT:
        path.append(node)
        node = far.back[node]
    return path


def _with_roles(units: list[Unit]) -> tuple[Unit, ...]:
    """The last layer is the head if it is plain; the first is the stem if it is plain and residual updates follow (in a
    plain stack it is a layer like the others)."""
    residual = any(u.kind == "residual" for u in units)
    roles = ["body"] * len(units)
    if units and units[-1].kind == "plain" and len(units) > 1:
        roles[-1] = "head"
    if residual and units[0].kind == "plain":
        roles[0] = "stem"
    return tuple(replace(u, role=role) for u, role in zip(units, roles, strict=True))


def _following_norm(graph: Graph, readers: list[list[int]], node: int) -> int | None:
    """The norm that alone reads this value (through reshapes and dropout), as in post-LN or convolution + BatchNorm."""
    while True:
        following = readers[node]
        if not following:
            return None
        first = graph.nodes[following[0]]
        if len(following) == 1:
            if first.name in ops.NORMS:
                return following[0]
            if first.name in ops.TRANSPARENT:
                node = following[0]
                continue
        # A norm written out in elementary operations: all readers sit in one call of a module named so.
        call = graph.calls[first.scope]
        whole = "Norm" in call.kind and all(graph.nodes[r].scope == first.scope for r in following)
        if whole and not any(n.weighted for n in graph.nodes if _within(graph, n.scope, first.scope)):
            return call.output
        return None


def _within(graph: Graph, scope: int, outer: int) -> bool:
    """Is a module call inside another, or the same?"""
    while scope > outer:
        scope = graph.calls[scope].parent
    return scope == outer


def last_weighted(graph: Graph, far: Distances, update: int) -> tuple[int, ...]:
    """The weighted operations that end the branches of a residual update."""
    origin, inputs = far.back[update], graph.nodes[update].inputs
    lengths = weighted_between(graph, origin, inputs)
    parts = [i for i in inputs if i in lengths]  # a factor of the branch may come from elsewhere (addcmul)
    longest = max(lengths[i][1] for i in parts)
    # Where the skip has a projection of its own, the branch is the longer of the two.
    pending = [i for i in parts if lengths[i][1] == longest]
    found: dict[int, None] = {}
    while pending:
        index = pending.pop()
        node = graph.nodes[index]
        if node.weighted:
            found[index] = None
        elif node.name in ops.ADDITIONS:
            pending.extend(i for i in node.inputs if i in lengths and i != origin)
        else:
            pending.extend(i for i in _carriers(graph, far, index) if i in lengths and i != origin)
    return tuple(found)


def _carriers(graph: Graph, far: Distances, index: int) -> tuple[int, ...]:
    """The input that carries the signal on: of several not a gate, which only scales it (routers, highways)."""
    inputs = graph.nodes[index].inputs
    open_ones = [i for i in inputs if not _is_gate(graph, i)]
    gated = 0 < len(open_ones) < len(inputs)
    return (min(open_ones, key=lambda i: far.units[i]),) if gated else (far.back[index],)


def _is_gate(graph: Graph, index: int) -> bool:
    """Was it squashed between 0 and 1 just before?"""
    while graph.nodes[index].name in ops.TRANSPARENT and len(graph.nodes[index].inputs) == 1:
        index = graph.nodes[index].inputs[0]
    return graph.nodes[index].name in ops.GATES


def branch_weighted(graph: Graph, far: Distances, update: int) -> tuple[int, ...]:
    """Every weighted operation between a residual update and the value it updates."""
    lengths = weighted_between(graph, far.back[update], graph.nodes[update].inputs)
    return tuple(i for i in lengths if graph.nodes[i].weighted and i != far.back[update])
