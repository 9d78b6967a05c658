"""What a study found, ready to be told: the slopes, the rates to use, and what to mind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from depthlr.errors import DepthlrError
from depthlr.law.fit import Fit
from depthlr.present.rates import RateRow, rate_rows
from depthlr.present.verdict import verdict
from depthlr.study.curves import Curve
from depthlr.study.follow import Snapshot
from depthlr.study.results import Over, Results
from depthlr.study.search import estimate

MOST_NOTES = 30  # however many seeds have something to mind


@dataclass(frozen=True)
class Findings:
    """A study's answer; a slope that cannot be fitted (yet) is None."""

    snapshot: Snapshot
    curves: tuple[Curve, ...]
    slopes: Mapping[Over, Fit | None]
    rows: tuple[RateRow, ...]
    notes: tuple[str, ...]
    to_come: int  # cells, likely; 0 when the study is finished

    @property
    def results(self) -> Results:
        return self.snapshot.results

    @property
    def over(self) -> Over:
        """Effective depth is what the law is about; the sizes serve where it was not counted."""
        return "depth" if self.results.depths else "size"

    def name_of(self, over: Over) -> str:
        """`effective depth`, or what the study varies, such as `blocks`."""
        return "effective depth" if over == "depth" else self.results.study.model.size_name

    @property
    def verdict(self) -> str:
        """The slope against the law's, in a sentence."""
        fit = self.slopes[self.over]
        if fit is None:
            return "No slope yet: a line needs optima inside the range of rates at two sizes or more."
        fitted = self.results.tuned_rates
        doubtful = sum(size in self.results.doubts for size in fitted)
        caution = f" But {doubtful} of {len(fitted)} sizes hardly learn or have no clear optimum." if doubtful else ""
        return verdict(fit) + caution

    @property
    def law_from(self) -> str:
        """Where the law sets out in the table of rates: the depth, or size, of the first that has one."""
        first = next((row for row in self.rows if row.law is not None), None)
        return "" if first is None else f"{first.size if first.depth is None else first.depth:g}"


def findings(snapshot: Snapshot) -> Findings:
    """Everything a report says, from a study's results so far."""
    results = snapshot.results
    curves = results.curves
    slopes: dict[Over, Fit | None] = {"depth": slope_of(results, "depth"), "size": slope_of(results, "size")}
    losses = {record.cell: record.loss for record in results.records}
    left = estimate(results.study.search, results.study.model.sizes, losses, {}, results.missing)
    return Findings(
        snapshot,
        curves=curves,
        slopes=slopes,
        rows=rate_rows(results, curves, slopes) if curves else (),
        notes=_shortened(results.notes),
        to_come=left.likely,
    )


def _shortened(notes: tuple[str, ...]) -> tuple[str, ...]:
    """The first notes and the last, which says that a sweep is unfinished, if it is."""
    if len(notes) <= MOST_NOTES:
        return notes
    return (*notes[: MOST_NOTES - 1], f"and {len(notes) - MOST_NOTES} more of this kind", notes[-1])


def slope_of(results: Results, over: Over) -> Fit | None:
    """The line through a study's optima, or None where there is none (yet); the optima are still worth telling."""
    try:
        return results.fit(over)
    except DepthlrError:  # too few optima yet, or the depths were not counted
        return None
