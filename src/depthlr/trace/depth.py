"""Effective depth: the number of depth units along a model's minimal path (paper, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from torch import nn

from depthlr.errors import DepthlrError
from depthlr.law.html import html_table
from depthlr.trace.distance import distances
from depthlr.trace.graph import Graph
from depthlr.trace.run import trace
from depthlr.trace.scope import norms_of, scope_flags
from depthlr.trace.units import Unit, units_of

Units = int | Sequence[type[nn.Module]] | None


@dataclass(frozen=True)
class Depth:
    """A model's effective depth. `total` counts stem and head, `backbone` does not."""

    total: int
    backbone: int
    units: tuple[Unit, ...] = ()
    flags: tuple[str, ...] = ()
    norms: tuple[str, ...] = ()  # "pre-norm", "batch-norm": what most units have, where tuned rates left the law

    @property
    def plain(self) -> int:
        """Plain weighted layers on the minimal path (the paper's m)."""
        return self.total - self.residual

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
        """All that occur in the body: a pyramid's stages, where `width` would depend on how many units each has."""
        return frozenset(self._body_widths)

    def other_widths(self, other: Depth) -> str | None:
        """Both models' widths in words where the sets differ; None where they are equal or one is not known."""
        if not (self.widths and other.widths) or self.widths == other.widths:
            return None
        return " against ".join(", ".join(map(str, sorted(depth.widths))) for depth in (self, other))

    @property
    def _body_widths(self) -> list[int]:
        return [u.width for u in self.units if u.role == "body" and u.width]

    def __str__(self) -> str:
        kinds = f" (backbone {self.backbone}; {self.plain} plain, {self.residual} residual)" if self.units else ""
        head = f"effective depth {self.total}{kinds}"
        rows = [f"{i:>4}  {u.kind:<8}  {u.role:<4}  {u.width:>6}  {_place(u)}" for i, u in enumerate(self.units, 1)]
        return "\n".join([head, *rows, *(f"note: {flag}" for flag in self.flags)])

    def _repr_html_(self) -> str:
        rows = [(i, u.kind, u.role, u.width, _place(u)) for i, u in enumerate(self.units, 1)]
        head = str(self).partition("\n")[0]
        return html_table(head, ("unit", "kind", "role", "width", "module"), rows, self.flags)


def _place(unit: Unit) -> str:
    return unit.path if unit.branch == unit.path or not unit.branch else f"{unit.path or '.'} <- {unit.branch}"


def effective_depth(model: nn.Module, example: Any, *, units: Units = None) -> Depth:
    """Count the units on the minimal path of `model`, by watching it run on `example` (no weights are allocated).

    `units=[Block]` makes every call of these classes along the minimal path one unit; a number is taken as the total.
    """
    check_units(units)
    if isinstance(units, int):
        return Depth(units, units)
    graph = trace(model, example, allow_recurrence=units is not None)
    return depth_of(graph, units)


def check_units(units: Any) -> None:
    """Units are a number, a sequence of module classes, or nothing."""
    if isinstance(units, int) and not isinstance(units, bool):
        if units < 1:
            raise DepthlrError(f"units={units}: a model has at least one unit.")
        return
    classes = isinstance(units, Sequence) and not isinstance(units, str)
    if units is not None and not (classes and all(isinstance(c, type) for c in units)):
        raise DepthlrError(f"units={units!r}: give a list of module classes, such as [Block], or the number of units.")


def depth_of(graph: Graph, units: Sequence[type[nn.Module]] | None = None) -> Depth:
    """The depth of an already recorded run."""
    blocks: frozenset[int] = frozenset()
    if units is not None:
        blocks = frozenset(i for i, call in enumerate(graph.calls) if isinstance(call.module, tuple(units)))
        if not blocks:
            names = ", ".join(c.__name__ for c in units)
            raise DepthlrError(f"units=[{names}]: no module of such a class ran; there are {_kinds(graph)}.")
    far = distances(graph, blocks)
    found = units_of(graph, far)
    if not found:
        raise DepthlrError("no weighted layer lies between the model's input and its output, so its depth is zero.")
    body = sum(u.role == "body" for u in found)
    return Depth(len(found), body, found, scope_flags(graph, far), norms_of(graph, far, found))


def _kinds(graph: Graph) -> str:
    return ", ".join(sorted({call.kind for call in graph.calls if call.kind}))
