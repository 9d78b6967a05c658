"""PathSum (Chen 2024): rate = c * (sum over input-output paths p of L_p^3)^(-1/2), L_p = weighted units on path p.

A stack of K residual blocks has 2^K paths, so everything here is kept as a logarithm and no path is ever enumerated.
"""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple, TypeVar

from depthlr.errors import DepthlrError
from depthlr.law.domain import carried, positive, whole

Node = TypeVar("Node", bound=Hashable)


class UnitCounts(NamedTuple):
    """How many plain units (on every path) and residual units (each on half of the paths) a stack has."""

    plain: int
    residual: int


class _LogMoments(NamedTuple):
    """Logs of: the number of paths that reach a node, and the sums over them of L, L^2 and L^3."""

    paths: float
    first: float
    second: float
    third: float


_START = _LogMoments(0.0, -math.inf, -math.inf, -math.inf)  # one path, of length 0
_LOG3 = math.log(3.0)
_LOG2 = math.log(2.0)


def log_pathsum(*, plain: int, residual: int) -> float:
    """log of sum_k C(K, k) (k + m)^3 for a stack of m plain and K residual units, each residual branch one unit."""
    m = whole(plain, "The number of plain units")
    k = whole(residual, "The number of residual units")
    if m + k == 0:
        raise DepthlrError("PathSum needs at least one weighted unit: give a plain or a residual count above 0.")
    # 2^K E[(X + m)^3] with X ~ Binomial(K, 1/2): E X = K/2, E X^2 = K(K+1)/4, E X^3 = K^2(K+3)/8; exact in integers.
    eightfold = k * k * (k + 3) + 6 * m * k * (k + 1) + 12 * m * m * k + 8 * m**3
    return k * _LOG2 + math.log(eightfold / 8)


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


def pathsum_transfer(
    rate: float, *, source: UnitCounts | tuple[int, int], target: UnitCounts | tuple[int, int]
) -> float:
    """The rate for the target's (plain, residual) counts from the rate tuned at the source's.

    On residual stacks without branch scaling the rate falls exponentially (2^K paths), not as a power of the depth.
    """
    tuned = positive(rate, "The rate")
    here, there = UnitCounts(*source), UnitCounts(*target)
    change = log_pathsum(**there._asdict()) - log_pathsum(**here._asdict())
    try:
        moved = tuned * math.exp(-change / 2)  # Chen 2024: rate ~ (sum_p L_p^3)^(-1/2)
    except OverflowError:
        moved = math.inf
    return carried(moved, here, there)


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
