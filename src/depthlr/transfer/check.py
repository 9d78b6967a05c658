"""Will a rate carry across these sizes? Energies at each, the exponent they imply, and a verdict, without training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain, pairwise
from statistics import fmean, median, stdev
from typing import Any

import torch
from torch import nn

from depthlr.energy.batch import LossFn, batches_of, split
from depthlr.energy.energy import Energy
from depthlr.energy.seeds import EnergyOverSeeds, update_energy_over_seeds
from depthlr.errors import DepthlrError
from depthlr.law.domain import whole
from depthlr.law.fit import Fit, fit_power_law
from depthlr.law.html import html_table
from depthlr.law.power import transfer
from depthlr.trace.depth import Depth, Units, effective_depth

CLOSE_DECADES = 0.15  # energies themselves carry tuned rates to 0.09 to 0.16 decades: less than this is agreement
FAR_DECADES = 0.5  # a factor of three: what copying the rate costs, so a rule this far off is worth nothing
EXPONENTS = (-2.0, 0.0)  # what tuned rates of plain, residual and transformer stacks were seen to follow
ODD_EXPONENT = 0.5  # this far outside, depth enters the parametrisation in another way too
# A residual stream's mean square grows with the number of updates; what passes ten times the units grows exponentially.
# Energies are not judged so: those of healthy stacks differ by six powers of ten between the first unit and the last.
GROWTH_PER_UNIT = 10.0
GROWTH_POWER = 2.0  # of depth: a stream's span grows as the first power, a constant gap of scales as none
LEVEL = 0.95  # of the errors' intervals
WIDE_EXPONENT = 1.0  # an interval longer than this cannot tell the law from half a power more or less
TABLE = ("size", "depth", "rate for energy 1", "sd", "law", "copy", "±")

Finding = tuple["Verdict", str]


class Verdict(StrEnum):
    """Whether a rate carries by the law: yes, with care, or no."""

    passed = "pass"
    caution = "caution"
    fail = "fail"


@dataclass(frozen=True)
class SizeCheck:
    """One size: its rate for mean energy 1, and how far off it rules put a rate tuned at the smallest size."""

    size: int
    depth: Depth
    energies: EnergyOverSeeds
    rate: float  # geometric mean over seeds
    sd: float | None  # decades, over seeds; one seed has none
    law_error: float  # decades; above 0 the law carries too high a rate
    copy_error: float
    uncertainty: float  # of both errors: half a 95% interval, by the seeds' scatter; infinite where that is not known

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of a table under `TABLE`."""
        sd = "-" if self.sd is None else f"{self.sd:.2f}"
        errors = (f"{self.law_error:+.2f}", f"{self.copy_error:+.2f}", f"{self.uncertainty:.2f}")
        return f"{self.size}", f"{self.depth.total}", f"{self.rate:.3g}", sd, *errors


@dataclass(frozen=True)
class TransferCheck:
    """The verdict with its reason, and what it rests on: a row a size, and the exponent over effective depth."""

    verdict: Verdict
    reason: str
    sizes: tuple[SizeCheck, ...]
    fit: Fit | None  # None where every size has one depth
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        table = [TABLE, *(row.cells for row in self.sizes)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
        return "\n".join([self.headline, *lines, *([f"{self.fit}"] if self.fit else []), *self._remarks()])

    def _repr_html_(self) -> str:
        below = [f"{self.fit}"] if self.fit else []
        return html_table(self.headline, TABLE, [row.cells for row in self.sizes], [*below, *self.notes])

    @property
    def headline(self) -> str:
        """Verdict and reason."""
        return f"{self.verdict}: {self.reason}"

    def _remarks(self) -> list[str]:
        return [f"note: {note}" for note in self.notes]


def check_transfer(
    build: Callable[[int], nn.Module],
    sizes: Sequence[int],
    batches: Any,
    loss_fn: LossFn,
    optimizer: Any = "sgd",
    *,
    seeds: int = 3,
    aggregate: str = "arithmetic",
    units: Units = None,
    limit: int = 4,
) -> TransferCheck:
    """Predict how well a rate tuned at the smallest of `sizes` carries to the others, by the law and by copying.

    `build(size)` gives a model initialised as it will be trained, drawn anew under each of `seeds` seeds; widths may
    change with the size. What a rule carries is compared with what the measured energies say (`aggregate` is which mean
    of the units). The optimizer is a factory or a name; the rest is as in `update_energy`.
    """
    wanted = _sizes(sizes)
    given = batches_of(batches, limit)  # once, since a loader gives other batches the next time
    count = whole(seeds, "The number of seeds", least=1)
    options = {"units": units, "limit": limit}
    energies = [
        update_energy_over_seeds(partial(build, size), range(count), given, loss_fn, optimizer, **options)
        for size in wanted
    ]
    depths = [_depth(build, size, given[0], units) for size in wanted]
    rates = [
        [_rate(energy, aggregate, size) for energy in e.energies] for size, e in zip(wanted, energies, strict=True)
    ]
    rows = _rows(wanted, depths, energies, rates)
    fit = None
    if len({depth.total for depth in depths}) > 1:
        fit = fit_power_law([d.total for d, seen in zip(depths, rates, strict=True) for _ in seen], list(chain(*rates)))
    return _judged(rows, fit)


def _sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    found = tuple(whole(size, "A size", least=1) for size in sizes)
    if len(found) < 2:
        raise DepthlrError(f"sizes is {list(found)}: a rate is carried between two sizes or more, such as [2, 4, 8].")
    if any(after <= before for before, after in pairwise(found)):
        raise DepthlrError(f"sizes is {list(found)}: name them from small to large, each once.")
    return found


def _depth(build: Callable[[int], nn.Module], size: int, batch: Any, units: Units) -> Depth:
    with torch.random.fork_rng():
        model = build(size)
    (positional, named), _ = split(batch, next(model.parameters()).device)
    return effective_depth(model, named or positional, units=units)


def _rate(energy: Energy, aggregate: str, size: int) -> float:
    """The rate at which this mean of the energies is 1."""
    value = energy.aggregate(aggregate)
    if value <= 0:
        raise DepthlrError(f"the step moves no unit before the head at size {size}, so there is no rate to compare.")
    return float(value**-0.5)


def _rows(
    sizes: Sequence[int], depths: Sequence[Depth], energies: Sequence[EnergyOverSeeds], rates: Sequence[list[float]]
) -> tuple[SizeCheck, ...]:
    logs = [[math.log10(rate) for rate in seen] for seen in rates]
    means = [fmean(seen) for seen in logs]
    sds = [stdev(seen) if len(seen) > 1 else None for seen in logs]
    rows = []
    for i, size in enumerate(sizes):
        copied = means[0] - means[i]
        rows.append(
            SizeCheck(
                size=size,
                depth=depths[i],
                energies=energies[i],
                rate=10 ** means[i],
                sd=sds[i],
                law_error=copied + math.log10(transfer(1.0, depths[0].total, depths[i].total)),
                copy_error=copied,
                uncertainty=_uncertainty(sds[0], sds[i], len(logs[i])) if i else 0.0,
            )
        )
    return tuple(rows)


def _uncertainty(here: float | None, there: float | None, seeds: int) -> float:
    """Half of Student's interval for a difference of means; seeds that all agree drew nothing, so they say nothing."""
    if not (here and there):
        return math.inf
    from scipy.special import stdtrit  # here, because `import depthlr` must not need scipy

    return float(stdtrit(2 * (seeds - 1), (1 + LEVEL) / 2)) * math.hypot(here, there) / math.sqrt(seeds)


def _judged(rows: tuple[SizeCheck, ...], fit: Fit | None) -> TransferCheck:
    """The gravest finding is the verdict, the first of its kind the reason; the others are notes."""
    findings = list(_findings(rows, fit))
    for verdict in (Verdict.fail, Verdict.caution):
        reasons = [text for found, text in findings if found is verdict]
        if reasons:
            break
    else:
        verdict = Verdict.passed
        reach = max(abs(row.law_error) + row.uncertainty for row in rows)
        reasons = [
            f"at every size the law's rate is within {reach:.2f} decades of what the energies say, scatter included."
        ]
    rest = [text for _, text in findings if text != reasons[0]]
    return TransferCheck(verdict, reasons[0], rows, fit, (*rest, *_notes(fit)))


def _findings(rows: tuple[SizeCheck, ...], fit: Fit | None) -> Iterator[Finding]:
    """What speaks against carrying a rate by the law; what explains most comes first."""
    yield from _growth(rows)
    yield from _exponent(fit)
    for flag in dict.fromkeys(flag for row in rows for flag in row.depth.flags):
        yield Verdict.caution, flag
    widths = [row.depth.width for row in rows if row.depth.width]
    if len(set(widths)) > 1:
        text = f"widths go from {min(widths)} to {max(widths)}, and the law knows depth alone: use rule='measured'."
        yield Verdict.caution, text
    if fit is None:
        text = f"effective depth is {rows[0].depth.total} at every size, so the law has nothing to say: pass units=."
        yield Verdict.caution, text
    yield from _disagreement(rows)
    yield from _errors(rows)


def _growth(rows: tuple[SizeCheck, ...]) -> Iterator[Finding]:
    """Exploding or vanishing units, at the size where that is worst."""
    spans = {row.size: median(_span(energy) for energy in row.energies.energies) for row in rows}
    worst = max(rows, key=lambda row: spans[row.size] / row.depth.total)
    if spans[worst.size] > GROWTH_PER_UNIT * worst.depth.total and _grows(rows, spans):
        squares = _squares(worst.energies.energies[0])
        text = (
            f"units {'explode' if squares[-1] > squares[0] else 'vanish'} at size {worst.size}: their mean squares "
            f"differ by a factor of {spans[worst.size]:.2g}; initialise by init_, or add norms."
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
    outside = 0.0 if fit is None else max(lowest - fit.slope, fit.slope - highest)
    if fit is not None and outside > max(ODD_EXPONENT, 2 * fit.stderr):
        text = (
            f"the energies' exponent is {fit.slope:.2f}, far from {lowest:g} to {highest:g}: look for a multiplier or "
            "scale that depends on depth besides the initialisation."
        )
        yield Verdict.fail, text


def _disagreement(rows: tuple[SizeCheck, ...]) -> Iterator[Finding]:
    """Units and readout that ask for rates of another slope: there tuned rates followed the readout, not the law."""
    gaps = [[0.5 * math.log10(e.mean / e.readout) for e in row.energies.energies if e.readout > 0] for row in rows]
    if min(map(len, gaps)) < 2:
        return
    for row, gap in reversed(list(zip(rows[1:], gaps[1:], strict=True))):
        change = abs(fmean(gap) - fmean(gaps[0]))
        unsure = _uncertainty(stdev(gaps[0]), stdev(gap), len(gap))
        if change - unsure > CLOSE_DECADES:
            text = (
                f"the energies of units and readout differ by {change:.2f} ± {unsure:.2f} decades on the rate for size "
                f"{row.size}: so they do in pre-LN stacks, where copying beat the law; tune a second size."
            )
            yield Verdict.caution, text
            return


def _errors(rows: tuple[SizeCheck, ...]) -> Iterator[Finding]:
    """The law's error, and how sure it is."""
    worst = max(rows[1:], key=lambda row: abs(row.law_error) - row.uncertainty)
    least = abs(worst.law_error) - worst.uncertainty
    if least > CLOSE_DECADES:
        better = "copying the rate is closer" if abs(worst.copy_error) < abs(worst.law_error) else "use rule='measured'"
        text = (
            f"the law's rate for size {worst.size} is {abs(worst.law_error):.2f} ± {worst.uncertainty:.2f} decades "
            f"{'above' if worst.law_error > 0 else 'below'} what the energies say: {better}."
        )
        yield Verdict.fail if least > FAR_DECADES else Verdict.caution, text
        return
    loosest = max(rows[1:], key=lambda row: abs(row.law_error) + row.uncertainty)
    farthest = max(rows[1:], key=lambda row: abs(row.law_error))
    if math.isinf(loosest.uncertainty):
        text = "how far energies scatter is not known: give three seeds, and let build(size) draw anew."
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
            f"decades, more than {CLOSE_DECADES:g} but not surely: add seeds, or use rule='measured'."
        )
        yield Verdict.caution, text


def _notes(fit: Fit | None) -> Iterator[str]:
    if fit is not None and not fit.interval[1] - fit.interval[0] <= WIDE_EXPONENT:
        yield "the exponent's interval is wide: add sizes or seeds before you carry a rate beyond these sizes."
