"""PathSum over any acyclic graph, in one pass over its edges: the reference of `log_pathsum`'s closed form."""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple, TypeVar

from depthlr.errors import DepthlrError

Node = TypeVar("Node", bound=Hashable)
_LOG2, _LOG3 = math.log(2.0), math.log(3.0)


class _LogMoments(NamedTuple):
    """Logs of: the number of paths that reach a node, and the sums over them of L, L^2 and L^3."""

    paths: float
    first: float
    second: float
    third: float


_START = _LogMoments(0.0, -math.inf, -math.inf, -math.inf)  # one path, of length 0


def log_pathsum_graph(
    predecessors: Mapping[Node, Iterable[Node]], weighted: Collection[Node], source: Node, sink: Node
) -> float:
    """log of sum_p L_p^3 over the paths from source to sink of any acyclic graph, in one pass over its edges.

    `predecessors` maps a node to the nodes that feed it (a node named twice is two edges, hence two paths);
    `weighted` holds the nodes that add 1 to the length of a path through them.
    """
    feeds = {node: list(before) for node, before in predecessors.items()}
    order = _topological(feeds)
    for end, role in ((source, "source"), (sink, "sink")):
        if end not in order:
            raise DepthlrError(f"The {role} {end!r} is not in the graph: name a node that some edge touches.")
    counts = frozenset(weighted)
    reached: dict[Node, _LogMoments] = {}
    for node in order:
        if node == source:
            moments = _START
        else:
            arriving = [reached[before] for before in feeds.get(node, ()) if before in reached]
            if not arriving:
                continue  # not reachable from the source
            moments = _LogMoments(*(_log_sum_exp(logs) for logs in zip(*arriving, strict=True)))
        reached[node] = _lengthened(moments) if node in counts else moments
    if sink not in reached:
        raise DepthlrError(f"No path leads from {source!r} to {sink!r}: check the predecessors along the way.")
    if reached[sink].third == -math.inf:
        raise DepthlrError(f"No path from {source!r} to {sink!r} holds a weighted unit: mark the nodes that count.")
    return reached[sink].third


def _topological(feeds: Mapping[Node, Iterable[Node]]) -> dict[Node, None]:
    """The nodes, each after all that feed it; a dict because membership is asked too."""
    try:
        return dict.fromkeys(TopologicalSorter(feeds).static_order())
    except CycleError as error:
        cycle = " -> ".join(repr(node) for node in error.args[1])
        raise DepthlrError(f"PathSum needs a graph without cycles, but {cycle} is one: unroll or cut it.") from error


def _lengthened(moments: _LogMoments) -> _LogMoments:
    """Every path one unit longer: (L+1)^2 = L^2 + 2L + 1, (L+1)^3 = L^3 + 3L^2 + 3L + 1, summed over the paths."""
    paths, first, second, third = moments
    return _LogMoments(
        paths,
        _log_sum_exp((first, paths)),
        _log_sum_exp((second, first + _LOG2, paths)),
        _log_sum_exp((third, second + _LOG3, first + _LOG3, paths)),
    )


def _log_sum_exp(logs: Iterable[float]) -> float:
    """log(sum(exp(logs))) with the largest taken out, so nothing overflows."""
    terms = tuple(logs)
    largest = max(terms)
    if largest == -math.inf or len(terms) == 1:
        return largest
    return largest + math.log(math.fsum(math.exp(term - largest) for term in terms))
