"""What lies outside the law's scope in a model's graph: one sentence each, beside the count."""

from __future__ import annotations

from collections.abc import Sequence

from depthlr.law.evidence import BATCH_NORM, PRE_NORM
from depthlr.trace import operations as ops
from depthlr.trace.distance import Distances
from depthlr.trace.graph import ROOT, Graph
from depthlr.trace.units import Unit

TOKEN_NORMS = frozenset({"layer_norm", "rms_norm", "native_layer_norm"})
BATCH_NORMS = frozenset(name for name in ops.NORMS if "batch_norm" in name)


def scope_flags(graph: Graph, far: Distances) -> tuple[str, ...]:
    """Sentences about structures that the minimal-path convention does not cover."""
    flags = [_concatenation(graph, far), _long_skip(graph, far), *_sharing(graph)]
    return tuple(flag for flag in flags if flag)


def norms_of(graph: Graph, far: Distances, units: Sequence[Unit]) -> tuple[str, ...]:
    """Which normalisation most units have, of those with which tuned rates were seen to leave the law."""
    readers = graph.consumers()
    updates = [unit.node for unit in units if unit.kind == "residual"]
    pre = sum(_reads_norm(graph, readers, far.back[update]) for update in updates)
    batch = sum(node.name in BATCH_NORMS for node in graph.nodes)
    found = ((PRE_NORM, 2 * pre > len(updates)), (BATCH_NORM, 2 * batch > len(units)))
    return tuple(name for name, seen in found if seen)


def _reads_norm(graph: Graph, readers: list[list[int]], stream: int) -> bool:
    """Does a LayerNorm or RMSNorm read the value that an update is added to?"""
    for reader in readers[stream]:
        node = graph.nodes[reader]
        kind = graph.calls[node.scope].kind  # of a norm that is written out in elementary operations
        if node.name in TOKEN_NORMS or "LayerNorm" in kind or "RMSNorm" in kind:
            return True
        if node.name in ops.TRANSPARENT and _reads_norm(graph, readers, reader):
            return True
    return False


def _concatenation(graph: Graph, far: Distances) -> str | None:
    index = graph.readout
    while index != ROOT:
        node = graph.nodes[index]
        if node.name in ops.CONCATENATIONS and len({far.units[i] for i in node.inputs}) > 1:
            return (
                f"concatenative skip at {graph.path(index) or 'the top level'}: the minimal path runs around the "
                "layers it skips, so the count is low; from Python, units= counts your own blocks."
            )
        index = far.back[index]
    return None


def _long_skip(graph: Graph, far: Distances) -> str | None:
    skipped = max(far.skipped)
    if skipped < 2:
        return None
    where = graph.path(far.skipped.index(skipped)) or "the top level"
    return (
        f"long skip at {where}: one addition passes over {skipped} layers or updates and counts as a single unit; "
        "from Python, units= counts what it skips."
    )


def _sharing(graph: Graph) -> list[str]:
    users: dict[str, list[int]] = {}
    for index, node in enumerate(graph.nodes):
        if node.weighted:
            for name in dict.fromkeys(node.weights):
                if not name.endswith("bias"):
                    users.setdefault(name, []).append(index)
    shared = {name: uses for name, uses in users.items() if len(uses) > 1}
    recurrent = [n for n, uses in shared.items() if _applied_to_itself(graph, uses)]
    tied = [n for n in shared if n not in recurrent]
    flags = []
    if recurrent:
        flags.append(
            f"recurrence: {recurrent[0]} is applied {len(shared[recurrent[0]])} times in a row"
            f"{_more(recurrent)}; the law covers non-recurrent models."
        )
    if tied:
        flags.append(f"weight sharing: {tied[0]} is used {len(shared[tied[0]])} times{_more(tied)}.")
    return flags


def _more(names: list[str]) -> str:
    return f" (and {len(names) - 1} more weights)" if len(names) > 1 else ""


def _applied_to_itself(graph: Graph, uses: list[int]) -> bool:
    """Does a weight's last use read what its first made, by the same operation (a tied embedding's is another)?"""
    first, last = uses[0], uses[-1]
    if graph.nodes[first].name != graph.nodes[last].name:
        return False
    seen, pending = {last}, [last]
    while pending:
        for source in graph.nodes[pending.pop()].inputs:
            if source == first:
                return True
            if source > first and source not in seen:
                seen.add(source)
                pending.append(source)
    return False
