"""A rate that was carried to another model: how it came about, and what it should lie within."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from depthlr.law.evidence import ADAPTIVE, EVIDENCE, law_findings
from depthlr.law.html import html_table
from depthlr.law.missed import COVERAGE, FARTHEST, LAW, doublings
from depthlr.law.rules import Family, Rule, carry, rule_named

UNSEEN = "not seen"  # depths, or weights on the meta device
AS_INIT = "as init_ draws it"
OTHER_INIT = "not as init_ draws it"
AS_IT_IS = "measured as it is"
NOT_INIT = (
    "the weights are not as large as init_ draws them (trained, or initialised otherwise), and the law holds for that "
    "initialisation alone: call depthlr.init_ on both models and train them so, or use the rule 'measured'."
)


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


def carried_over_depth(
    rate: float, source_depth: float, target_depth: float, rule: str = "law", family: Family = "sgd"
) -> CarriedRate:
    """Carry a rate between two depths by the rule of that name: arithmetic, without a model."""
    chosen = rule_named(rule)
    moved = carry(chosen, rate, source_depth, target_depth, family)
    facts = {ADAPTIVE} if family == "adam" else set()
    return carried_by(chosen, rate, moved, source_depth, target_depth, facts=facts)


def carried_by(
    rule: Rule,
    rate: float,
    moved: float,
    source_depth: float,
    target_depth: float,
    *,
    outside: Sequence[str] = (),
    facts: Collection[str] = (),
    initialization: str = UNSEEN,
) -> CarriedRate:
    """A rate that a rule of depth moved, with what is known of such rates.

    Only the law's rates were compared with tuned ones, so only these have an interval, and only in the law's scope.

    Args:
        rule: The rule.
        rate: The rate at the source.
        moved: The rate at the target.
        source_depth: Effective depth of the source.
        target_depth: Effective depth of the target.
        outside: One note for each precondition of the rule that does not hold.
        facts: Keys of `LAW_FINDINGS`: properties of the models and of the optimizer.
        initialization: How the models are initialised, as far as it was seen.
    """
    by_law = rule.name == "law"
    unmet = [*outside, *([NOT_INIT] if by_law and initialization == OTHER_INIT else [])]
    found = law_findings(facts) if by_law else []
    carried = CarriedRate(
        moved,
        rule.name,
        source_depth,
        target_depth,
        moved / rate,
        rule.assumes,
        (*unmet, *(finding.sentence for finding in found)),
        in_scope=not unmet and all(finding.interval_held for finding in found),
        initialization=initialization,
    )
    return carried.within(LAW.within(source_depth, target_depth)) if by_law and carried.in_scope else carried
