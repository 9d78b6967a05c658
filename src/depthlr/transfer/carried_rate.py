"""A rate that was carried to another model: how it came about, and what it should lie within."""

from __future__ import annotations

from dataclasses import dataclass, replace

from depthlr.law.html import html_table
from depthlr.transfer.missed import COVERAGE, FARTHEST, doublings


@dataclass(frozen=True)
class CarriedRate:
    """A rate for the target, and how it came about."""

    rate: float
    rule: str
    source_depth: float
    target_depth: float
    factor: float  # rate at the target / rate at the source
    assumes: str
    notes: tuple[str, ...] = ()
    low: float | None = None  # an interval that should hold the best rate `coverage` of the time, where it was compared
    high: float | None = None
    coverage: float = COVERAGE

    def __float__(self) -> float:
        return self.rate

    def within(self, decades: float) -> CarriedRate:
        """With an interval of so many decades to each side; without one beyond what was compared."""
        if doublings(self.source_depth, self.target_depth) > FARTHEST:
            return self
        return replace(self, low=self.rate / 10**decades, high=self.rate * 10**decades)

    def _repr_html_(self) -> str:
        rows = [(self.rule, f"{self.source_depth:g}", f"{self.target_depth:g}", f"{self.factor:.3g}", self._interval())]
        columns = ("rule", "from depth", "to depth", "factor", f"{self.coverage:.0%} interval")
        return html_table(f"{self.rate:.3g}", columns, rows, (self.assumes, *self.notes))

    def __str__(self) -> str:
        way = f"{self.rule}: depth {self.source_depth:g} -> {self.target_depth:g}"
        held = "" if self.low is None else f", {self.coverage:.0%} {self._interval()}"
        return "\n".join([f"{self.rate:.3g} ({way}, x {self.factor:.3g}{held})", *self.notes])

    def _interval(self) -> str:
        return "not known" if self.low is None else f"{self.low:.3g} to {self.high:.3g}"
