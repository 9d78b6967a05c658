"""A rate that was carried to another model: how it came about, and what it should lie within."""

from __future__ import annotations

from dataclasses import dataclass, replace

from depthlr.law.html import html_table
from depthlr.law.missed import COVERAGE, FARTHEST, LAW, doublings
from depthlr.law.rules import Family, Rule, carry, rule_named


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


def carried_over_depth(
    rate: float, source_depth: float, target_depth: float, rule: str = "law", family: Family = "sgd"
) -> CarriedRate:
    """Carry a rate between two depths by the rule of that name: arithmetic, without a model."""
    chosen = rule_named(rule)
    moved = carry(chosen, rate, source_depth, target_depth, family)
    return carried_by(chosen, rate, moved, source_depth, target_depth)


def carried_by(
    rule: Rule, rate: float, moved: float, source_depth: float, target_depth: float, notes: tuple[str, ...] = ()
) -> CarriedRate:
    """A rate that a rule of depth moved.

    Only the law's rates were compared with tuned ones, so only these have an interval, and only where no note says that
    the models are outside of the law's scope.
    """
    carried = CarriedRate(moved, rule.name, source_depth, target_depth, moved / rate, rule.assumes, notes)
    return carried.within(LAW.within(source_depth, target_depth)) if rule.name == "law" and not notes else carried
