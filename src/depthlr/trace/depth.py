"""Effective depth: the number of depth units along a model's minimal path (paper, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any, NamedTuple

from torch import nn

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.formatting import html_table
from depthlr.law.carried_rate import BATCH_NORM, PRE_NORM
from depthlr.trace import operations as ops
from depthlr.trace.distances import Distances, compute_distances
from depthlr.trace.graph import ROOT, Graph, Node
from depthlr.trace.tracing import trace
from depthlr.trace.units import Unit, units_of

Units = int | Sequence[type[nn.Module]] | None
TIED = "tied weights"  # used twice, such as an embedding that is the head too


class Flag(NamedTuple):
    """A structure that the count does not cover."""

    kind: str
    sentence: str


@dataclass(frozen=True)
class Depth:
    """A model's effective depth. `total` counts stem and head, `backbone` does not."""

    total: float  # whole if it was counted; a depth given as a number may be fractional
    backbone: float
    units: tuple[Unit, ...] = ()
    flagged: tuple[Flag, ...] = ()
    norms: tuple[str, ...] = ()  # "pre-norm", "batch-norm": what most units have. Such models deviate from the law
    multiplier: float = 1.0  # the constant by which the typical residual branch is multiplied (Depth-muP, CompleteP)

    @property
    def flags(self) -> tuple[str, ...]:
        """One sentence for each structure that the count does not cover."""
        return tuple(flag.sentence for flag in self.flagged)

    @property
    def plain(self) -> int:
        """Plain weighted layers on the minimal path (the paper's m)."""
        return sum(u.kind == "plain" for u in self.units)

    @property
    def residual(self) -> int:
        """Residual updates on the minimal path (the paper's K)."""
        return sum(u.kind == "residual" for u in self.units)

    @property
    def width(self) -> int | None:
        """Features of the typical unit: the median over the body."""
        widths = self._body_widths
        return median_low(widths) if widths else None

    @property
    def widths(self) -> frozenset[int]:
        """All widths in the body. A pyramid has several, and `width` depends on the number of units per stage."""
        return frozenset(self._body_widths)

    def other_widths(self, other: Depth) -> str | None:
        """The widths of both models as text if the sets differ. None if they are equal or one is unknown."""
        if not (self.widths and other.widths) or self.widths == other.widths:
            return None
        return " against ".join(", ".join(map(str, sorted(depth.widths))) for depth in (self, other))

    @property
    def _body_widths(self) -> list[int]:
        return [u.width for u in self.units if u.role == "body" and u.width]

    def __str__(self) -> str:
        kinds = f" (backbone {self.backbone}; {self.plain} plain, {self.residual} residual)" if self.units else ""
        head = f"effective depth {self.total}{kinds}"
        rows = [f"{i:>4}  {u.kind:<8}  {u.role:<4}  {u.width:>6}  {_location(u)}" for i, u in enumerate(self.units, 1)]
        return "\n".join([head, *rows, *(f"note: {flag}" for flag in self.flags)])

    def _repr_html_(self) -> str:
        rows = [(i, u.kind, u.role, u.width, _location(u)) for i, u in enumerate(self.units, 1)]
        head = str(self).partition("\n")[0]
        return html_table(head, ("unit", "kind", "role", "width", "module"), rows, self.flags)


def _location(unit: Unit) -> str:
    if unit.branch in ("", unit.path):
        return unit.path
    return f"{unit.path or '.'} <- {unit.branch}"


def effective_depth(model: nn.Module, example: Any, *, units: Units = None) -> Depth:
    """Count the units on the minimal path of `model`, from one run on `example`.

    Large models run on fake tensors where that is possible, so nothing is allocated for them.

    Args:
        model: The model to count.
        example: A tensor, a tuple of positional or a mapping of named arguments.
        units: Module classes, such as [Block]: every call of them on the minimal path is one unit. A number is
            taken as the total depth, and the model is not run.

    Returns:
        The depth with its units, and with flags for what the count does not cover.

    Raises:
        DepthlrError: If the model cannot run on the example, is recurrent, or has no weighted layer in between.
    """
    depth, _ = depth_and_graph(model, example, units)
    return depth


def depth_and_graph(model: nn.Module, example: Any, units: Units = None) -> tuple[Depth, Graph | None]:
    """The effective depth, and the recorded run in which it was counted. There is none if the depth is given.

    Args:
        model: The model to count.
        example: As in `effective_depth`.
        units: As in `effective_depth`.
    """
    check_units(units)
    if isinstance(units, int):
        return Depth(units, units), None
    graph = trace(model, example, allow_recurrence=units is not None)
    return depth_of(graph, units), graph


def check_units(units: Any) -> None:
    """Raise unless `units` is a positive whole number, a sequence of module classes, or None."""
    if isinstance(units, int):
        check.count("units", units)
        return
    classes = isinstance(units, Sequence) and not isinstance(units, str)
    if units is not None and not (classes and all(isinstance(c, type) for c in units)):
        raise DepthlrError(f"units={units!r}: give a list of module classes, such as [Block], or the number of units.")


def depth_of(graph: Graph, units: Sequence[type[nn.Module]] | None = None) -> Depth:
    """The depth of a recorded run.

    Args:
        graph: A recorded run.
        units: As in `effective_depth`.

    Raises:
        DepthlrError: If no such block ran, or no weighted layer lies between input and output.
    """
    blocks: frozenset[int] = frozenset()
    if units is not None:
        blocks = frozenset(i for i, call in enumerate(graph.calls) if isinstance(call.module, tuple(units)))
        if not blocks:
            names = ", ".join(c.__name__ for c in units)
            raise DepthlrError(f"units=[{names}]: no module of such a class ran; there are {_kinds(graph)}.")
    distances = compute_distances(graph, blocks)
    found = units_of(graph, distances)
    if not found:
        raise DepthlrError("no weighted layer lies between the model's input and its output, so its depth is zero.")
    body = sum(u.role == "body" for u in found)
    flags, norms = _scope_flags(graph, distances), _norms_of(graph, distances, found)
    return Depth(len(found), body, found, flags, norms, _branch_multiplier(graph, distances, found))


def _kinds(graph: Graph) -> str:
    return ", ".join(sorted({call.kind for call in graph.calls if call.kind}))


def _scope_flags(graph: Graph, distances: Distances) -> tuple[Flag, ...]:
    """Structures that the minimal-path convention does not cover."""
    flags = [_concatenation(graph, distances), _long_skip(graph, distances), *_sharing(graph)]
    return tuple(flag for flag in flags if flag)


def _norms_of(graph: Graph, distances: Distances, units: Sequence[Unit]) -> tuple[str, ...]:
    """The normalisations of most units, among those for which tuned rates deviate from the law."""
    readers = graph.consumers()
    updates = [unit.node for unit in units if unit.kind == "residual"]
    pre = sum(_reads_norm(graph, readers, distances[update].previous) for update in updates)
    batch = sum(node.name in ops.BATCH_NORMS for node in graph.nodes)
    found = ((PRE_NORM, 2 * pre > len(updates)), (BATCH_NORM, 2 * batch > len(units)))
    return tuple(name for name, seen in found if seen)


def _branch_multiplier(graph: Graph, distances: Distances, units: Sequence[Unit]) -> float:
    """The median of the constants by which residual branches are multiplied before they are added; 1 without any.

    A layer without a bias passes a constant on: W (c x) = c W x.
    """
    factors = []
    for update in (unit.node for unit in units if unit.kind == "residual"):
        node = graph.nodes[update]
        stream = distances[update].previous
        factor = 1.0 if node.inputs[-1] == stream else node.factor  # alpha multiplies the second operand
        branches = [i for i in node.inputs if i != stream]
        end = max(branches, default=ROOT)  # nodes are numbered as they ran, and the branch ran after the stream
        while end > stream and _passes_factors(graph.nodes[end]):
            factor *= graph.nodes[end].factor
            end = max(graph.nodes[end].inputs, default=ROOT)
        factors.append(abs(factor))
    return median_low(factors) if factors else 1.0


def _passes_factors(node: Node) -> bool:
    if node.name in ops.MATRIX_WITH_BIAS:
        return len(node.weights) == 1
    return node.name in ops.TRANSPARENT | ops.MULTIPLICATIONS


def _reads_norm(graph: Graph, readers: list[list[int]], stream: int) -> bool:
    """Does a LayerNorm or RMSNorm read the stream that an update is added to?"""
    for reader in readers[stream]:
        node = graph.nodes[reader]
        kind = graph.calls[node.scope].kind  # of a norm that is written out in elementary operations
        if ops.is_token_norm(node.name) or ops.is_token_norm(kind):
            return True
        if node.name in ops.TRANSPARENT and _reads_norm(graph, readers, reader):
            return True
    return False


def _concatenation(graph: Graph, distances: Distances) -> Flag | None:
    index = graph.readout
    while index != ROOT:
        node = graph.nodes[index]
        if node.name in ops.CONCATENATIONS and len({distances[i].depth for i in node.inputs}) > 1:
            return Flag(
                "concatenation",
                f"concatenative skip at {graph.path(index) or 'the top level'}: the minimal path runs around the "
                "layers it skips, so the count is low; from Python, units= counts your own blocks.",
            )
        index = distances[index].previous
    return None


def _long_skip(graph: Graph, distances: Distances) -> Flag | None:
    node = max(range(len(distances)), key=lambda i: distances[i].skipped)
    skipped = distances[node].skipped
    if skipped < 2:
        return None
    where = graph.path(node) or "the top level"
    return Flag(
        "long skip",
        f"long skip at {where}: one addition passes over {skipped} layers or updates and counts as a single unit; "
        "from Python, units= counts what it skips.",
    )


def _sharing(graph: Graph) -> list[Flag]:
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
        times = f"{len(shared[recurrent[0]])} times in a row{_more(recurrent)}"
        sentence = f"recurrence: {recurrent[0]} is applied {times}; the law covers non-recurrent models."
        flags.append(Flag("recurrence", sentence))
    if tied:
        uses = len(shared[tied[0]])
        sentence = f"weight sharing: {tied[0]} is used {uses} times{_more(tied)}."
        flags.append(Flag(TIED if uses == 2 else "weight sharing", sentence))
    return flags


def _more(names: list[str]) -> str:
    return f" (and {len(names) - 1} more weights)" if len(names) > 1 else ""


def _applied_to_itself(graph: Graph, uses: list[int]) -> bool:
    """Does the last use of a weight depend on its first use? A tied embedding uses different operations."""
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
