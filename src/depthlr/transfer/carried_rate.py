"""A rate that was carried to another model: how it came about, and what it should lie within."""

from __future__ import annotations

from dataclasses import dataclass, replace

from depthlr.law.html import html_table
from depthlr.transfer.evidence import EVIDENCE
from depthlr.transfer.missed import COVERAGE, FARTHEST, doublings

UNSEEN = "not seen"  # depths, or weights on the meta device
AS_INIT = "as init_ draws it"
OTHER_INIT = "not as init_ draws it"
AS_IT_IS = "measured as it is"


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
    in_scope: bool = True  # False where a note says that the rule's preconditions do not hold
    initialization: str = UNSEEN  # of the models, as the rule saw it
    evidence: str = EVIDENCE  # what intervals rest on, and where they end

    def __float__(self) -> float:
        return self.rate

    def within(self, decades: float) -> CarriedRate:
        """With an interval of so many decades to each side; without one beyond what was compared."""
        if doublings(self.source_depth, self.target_depth) > FARTHEST:
            return self
        return replace(self, low=self.rate / 10**decades, high=self.rate * 10**decades)

    def _repr_html_(self) -> str:
        row = (self.rule, f"{self.source_depth:g}", f"{self.target_depth:g}", f"{self.factor:.3g}", self._interval())
        columns = ("rule", "from depth", "to depth", "factor", f"{self.coverage:.0%} interval", "in scope", "weights")
        rows = [(*row, "yes" if self.in_scope else "no", self.initialization)]
        return html_table(f"{self.rate:.3g}", columns, rows, (self.assumes, *self.notes, self.evidence))

    def __str__(self) -> str:
        way = f"{self.rule}: depth {self.source_depth:g} -> {self.target_depth:g}"
        held = "" if self.low is None else f", {self.coverage:.0%} {self._interval()}"
        scope = "" if self.in_scope else ", outside the rule's scope"
        return "\n".join([f"{self.rate:.3g} ({way}, x {self.factor:.3g}{held}{scope})", *self.notes])

    def _interval(self) -> str:
        return "not known" if self.low is None else f"{self.low:.3g} to {self.high:.3g}"
