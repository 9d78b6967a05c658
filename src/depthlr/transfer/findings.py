"""What speaks against carrying a rate by the law, each finding with how grave it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum
from statistics import median

from depthlr.energy.energy import Energy
from depthlr.energy.persistent import rate_over_draws
from depthlr.law.fit import Fit
from depthlr.transfer.size_check import SizeCheck

CLOSE_DECADES = 0.15  # measured changes miss tuned ones by less on 19 of 24 tasks: this is agreement
FAR_DECADES = 0.5  # a factor of three: what copying the rate costs, so a rule this far off is worth nothing
EXPONENTS = (-2.0, 0.0)  # what tuned rates of plain, residual and transformer stacks were seen to follow
ODD_EXPONENT = 0.5  # this far outside, depth enters the parametrisation in another way too
# A residual stream's mean square grows with the number of updates; what passes ten times the units grows exponentially.
# Energies are not judged so: those of healthy stacks differ by six powers of ten between the first unit and the last.
GROWTH_PER_UNIT = 10.0
GROWTH_POWER = 2.0  # of depth: a stream's span grows as the first power, a constant gap of scales as none

Finding = tuple["Verdict", str]


class Verdict(StrEnum):
    """Whether a rate carries by the law: yes, with care, or no."""

    passed = "pass"
    caution = "caution"
    fail = "fail"


def findings(rows: tuple[SizeCheck, ...], fit: Fit | None) -> Iterator[Finding]:
    """What speaks against carrying a rate by the law; what explains most comes first."""
    yield from _growth(rows)
    yield from _exponent(fit)
    noisy = [row.size for row in rows if rate_over_draws(row.persistent).noisy]
    if noisy:
        text = f"batches agree on hardly anything at size {noisy[0]}, so its rate is a guess: take more or larger ones."
        yield Verdict.caution, text
    for flag in dict.fromkeys(flag for row in rows for flag in row.depth.flags):
        yield Verdict.caution, flag
    if widths := next(filter(None, (rows[0].depth.other_widths(row.depth) for row in reversed(rows))), None):
        yield Verdict.caution, f"widths differ ({widths}), and the law knows depth alone: use the rule 'measured'."
    if fit is None:
        text = (
            f"effective depth is {rows[0].depth.total} at every size, so the law has nothing to say; from Python, "
            "units= counts your own blocks."
        )
        yield Verdict.caution, text
    yield from errors(rows)


def _growth(rows: tuple[SizeCheck, ...]) -> Iterator[Finding]:
    """Exploding or vanishing units, at the size where that is worst."""
    spans = {row.size: median(_span(energy) for energy in row.energies.energies) for row in rows}
    worst = max(rows, key=lambda row: spans[row.size] / row.depth.total)
    if spans[worst.size] > GROWTH_PER_UNIT * worst.depth.total and _grows(rows, spans):
        squares = _squares(worst.energies.energies[0])
        text = (
            f"units {'explode' if squares[-1] > squares[0] else 'vanish'} at size {worst.size}: their mean squares "
            f"differ by a factor of {spans[worst.size]:.2g}; initialise as depthlr does (init_), or add norms."
        )
        yield Verdict.fail, text


def _grows(rows: tuple[SizeCheck, ...], spans: dict[int, float]) -> bool:
    """Does the span grow with depth, as exploding units' does? Where depth does not grow, nothing speaks against it."""
    first, last = rows[0], rows[-1]
    if math.isinf(max(spans.values())) or first.depth.total == last.depth.total:
        return True
    allowed = math.pow(last.depth.total / first.depth.total, GROWTH_POWER)
    return spans[last.size] > allowed * spans[first.size]


def _span(energy: Energy) -> float:
    squares = _squares(energy)
    return max(squares) / min(squares) if min(squares) > 0 else math.inf


def _squares(energy: Energy) -> list[float]:
    """Mean squares of the units; the stem is left out, because embeddings have a scale of their own."""
    return [u.mean_square for u in energy.hidden if u.unit.role != "stem"] or [u.mean_square for u in energy.hidden]


def _exponent(fit: Fit | None) -> Iterator[Finding]:
    """A mixed parametrisation: an exponent that is surely another than any known one."""
    lowest, highest = EXPONENTS
    outside = 0.0 if fit is None else max(lowest - fit.slope, fit.slope - highest) - 2 * fit.stderr
    if fit is not None and outside > ODD_EXPONENT:
        text = (
            f"the measured exponent is {fit.slope:.2f}, far from {lowest:g} to {highest:g}: look for a multiplier or "
            "scale that depends on depth besides the initialisation."
        )
        yield Verdict.fail, text


def errors(rows: tuple[SizeCheck, ...]) -> Iterator[Finding]:
    """The law's error, and how sure it is."""
    worst = max(rows[1:], key=lambda row: abs(row.law_error) - row.uncertainty)
    least = abs(worst.law_error) - worst.uncertainty
    if least > CLOSE_DECADES:
        better = (
            "copying the rate is closer" if abs(worst.copy_error) < abs(worst.law_error) else "use the rule 'measured'"
        )
        text = (
            f"the law's rate for size {worst.size} is {abs(worst.law_error):.2f} ± {worst.uncertainty:.2f} decades "
            f"{'above' if worst.law_error > 0 else 'below'} the measured one: {better}."
        )
        yield Verdict.fail if least > FAR_DECADES else Verdict.caution, text
        return
    loosest = max(rows[1:], key=lambda row: abs(row.law_error) + row.uncertainty)
    farthest = max(rows[1:], key=lambda row: abs(row.law_error))
    if math.isinf(loosest.uncertainty):
        text = "how far measured rates scatter is not known: give three seeds, and let the builder draw anew."
        yield Verdict.caution, text
    elif abs(loosest.law_error) + loosest.uncertainty > FAR_DECADES:
        text = (
            f"the law's error at size {loosest.size} is only known as {loosest.law_error:+.2f} ± "
            f"{loosest.uncertainty:.2f} decades: add seeds, or a wider model."
        )
        yield Verdict.caution, text
    elif abs(farthest.law_error) > CLOSE_DECADES:
        text = (
            f"the law's error at size {farthest.size} is {farthest.law_error:+.2f} ± {farthest.uncertainty:.2f} "
            f"decades, more than {CLOSE_DECADES:g} but not surely: add seeds, or use the rule 'measured'."
        )
        yield Verdict.caution, text
