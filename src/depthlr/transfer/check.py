"""Check that a rate carries across sizes: one measured step per size, the exponent, and a verdict, without training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from statistics import median, stdev
from typing import Any

from torch import nn

from depthlr import check
from depthlr.energy.batches import batches_for_seeds
from depthlr.energy.energy import Energy, EnergyOverSeeds, update_energy_over_seeds
from depthlr.energy.initializations import Draws, build_model, depth_on
from depthlr.energy.persistent import DrawnRate, PersistentEnergy, persistent_energies, rate_over_draws
from depthlr.energy.progress import labelled, measuring
from depthlr.energy.step import check_fits_any_model, optimizers_of, own_rates
from depthlr.errors import DepthlrError
from depthlr.formatting import html_table
from depthlr.law.fit import Fit, fit_power_law, student_quantile
from depthlr.law.rules import transfer_by_power
from depthlr.trace.depth import Depth, Units
from depthlr.trace.interface import LossFn
from depthlr.transfer.recipe import group_notes

CLOSE_DECADES = 0.15  # measured changes miss tuned ones by less on 19 of 24 tasks: this is agreement
FAR_DECADES = 0.5  # a factor of three: what copying the rate costs, so a rule this far off is worth nothing
EXPONENTS = (-2.0, 0.0)  # what tuned rates of plain, residual and transformer stacks were seen to follow
ODD_EXPONENT = 0.5  # this far outside, depth enters the parametrisation in another way too
# A residual stream's mean square grows with the number of updates; what passes ten times the units grows exponentially.
# Energies are not judged so: those of healthy stacks differ by six powers of ten between the first unit and the last.
GROWTH_PER_UNIT = 10.0
GROWTH_POWER = 2.0  # of depth: a stream's span grows as the first power, a constant gap of scales as none
LEVEL = 0.95  # of the errors' intervals
TABLE = ("size", "depth", "rate for energy 1", "sd", "law", "copy", "±")

Problem = tuple["Verdict", str]


class Verdict(StrEnum):
    """Whether a rate carries by the law: yes, with care, or no."""

    passed = "pass"
    caution = "caution"
    fail = "fail"


@dataclass(frozen=True)
class SizeCheck:
    """What was measured at one size, with one entry per seed, and the errors of rates carried from the smallest size.

    `compare_sizes` fills the errors in.
    """

    size: int
    depth: Depth
    energies: EnergyOverSeeds
    persistent: tuple[PersistentEnergy, ...]
    drawn: bool = True  # a model of its own for every seed
    law_error: float = 0.0  # decades; above 0 the law carries too high a rate
    copy_error: float = 0.0
    uncertainty: float = 0.0  # of both errors: half a 95% interval, by the seeds' scatter; infinite if not known

    @property
    def law_error_at_least(self) -> float:
        """The size of the law's error at the near end of its interval; negative if the interval holds 0."""
        return abs(self.law_error) - self.uncertainty

    @property
    def law_error_at_most(self) -> float:
        """The size of the law's error at the far end of its interval."""
        return abs(self.law_error) + self.uncertainty

    @property
    def found(self) -> DrawnRate:
        """The rate of persistent energy 1, over seeds."""
        return rate_over_draws(self.persistent)

    @property
    def rate(self) -> float:
        """The geometric mean over seeds."""
        return self.found.rate

    @property
    def sd(self) -> float | None:
        """Decades, over seeds; one seed has none."""
        return stdev(map(math.log10, self.rates)) if self.drawn and len(self.rates) > 1 else None

    @property
    def error(self) -> float | None:
        """The standard error of log10(rate) over seeds. None if it is not known."""
        return self.sd / math.sqrt(len(self.rates)) if self.sd else None

    @property
    def rates(self) -> list[float]:
        """One rate per seed."""
        return [one.rate for one in self.persistent]

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of a table under `TABLE`."""
        sd = "-" if self.sd is None else f"{self.sd:.2f}"
        errors = (f"{self.law_error:+.2f}", f"{self.copy_error:+.2f}", f"{self.uncertainty:.2f}")
        return f"{self.size}", f"{self.depth.total}", f"{self.rate:.3g}", sd, *errors


@dataclass(frozen=True)
class TransferCheck:
    """The verdict, its reason, one row per size, and the fitted exponent over effective depth."""

    verdict: Verdict
    reason: str
    sizes: tuple[SizeCheck, ...]
    fit: Fit | None  # None where every size has one depth
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        table = [TABLE, *(row.cells for row in self.sizes)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [self.headline]
        for row in table:
            lines.append("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
        if self.fit:
            lines.append(str(self.fit))
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        below = [f"{self.fit}"] if self.fit else []
        return html_table(self.headline, TABLE, [row.cells for row in self.sizes], [*below, *self.notes])

    @property
    def headline(self) -> str:
        """Verdict and reason."""
        return f"{self.verdict}: {self.reason}"


def check_transfer(
    build: Callable[[int], nn.Module],
    sizes: Sequence[int],
    batches: Any,
    loss_fn: LossFn | None = None,
    optimizer: Any = "sgd",
    *,
    seeds: int = 3,
    units: Units = None,
    limit: int | None = None,
) -> TransferCheck:
    """Predict how well a rate tuned at the smallest size carries to the others, by the law and by copying.

    One step is measured at each size, and the rate that a rule carries is compared with what `persistent_energy` says.

    Args:
        build: Takes a size and returns a model, initialized as it will be trained. Widths may change with the size.
        sizes: Two sizes or more, from small to large.
        batches: Three batches or more, as in `persistent_energy`.
        loss_fn: As in `update_energy`.
        optimizer: A name, or a factory that takes the model.
        seeds: The number of initializations per size.
        units: Modules that count as one unit each, as in `effective_depth`.
        limit: Batches per seed.

    Returns:
        The verdict (pass, caution or fail), its reason, and the measurements.
    """
    checked_sizes = _check_sizes(sizes)
    drawn_seeds = range(check.count("The number of seeds", seeds, least=1))
    check_fits_any_model(optimizer)
    given = batches_for_seeds(batches, len(drawn_seeds), limit, seed=0)
    builds = {f"size {size}": partial(build, size) for size in checked_sizes}
    models = {name: Draws(make, drawn_seeds) for name, make in builds.items()}
    energies = []
    with measuring(len(builds) * len(drawn_seeds) * (1 + given.size)):
        for name, make in builds.items():
            with labelled(name):
                energies.append(
                    update_energy_over_seeds(make, drawn_seeds, given.first, loss_fn, optimizer, units=units)
                )
        persistent = persistent_energies(models, given, loss_fn, optimizer, seed=0)
    rows, ratios = [], []
    for size, draws, of_units, of_readout in zip(checked_sizes, models.values(), energies, persistent, strict=True):
        model = build_model(partial(build, size))
        depth = depth_on(model, given.first, units)
        rows.append(SizeCheck(size, depth, of_units, of_readout, drawn=not draws.same_weights))
        ratios.append(own_rates(optimizers_of(optimizer, model)).ratios)
    judged = judge(rows)
    return replace(judged, notes=(*judged.notes, *group_notes(ratios)))


def _check_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    found = check.counts("sizes", sizes, least=1)
    if len(found) < 2 or list(found) != sorted(found):
        raise DepthlrError(f"sizes is {list(found)}: name two sizes or more, from small to large, such as [2, 4, 8].")
    return found


def judge(measured: Sequence[SizeCheck]) -> TransferCheck:
    """The verdict of the most serious problem. The first problem of that kind is the reason; the others are notes.

    Args:
        measured: One entry per size, from small to large.
    """
    fit = None
    if len({row.depth.total for row in measured}) > 1:
        depths = [row.depth.total for row in measured for _ in row.rates]
        fit = fit_power_law(depths, [rate for row in measured for rate in row.rates])
    rows = tuple(compare_sizes(measured[0], row) for row in measured)
    problems = list(find_problems(rows, fit))
    reach = max(row.law_error_at_most for row in rows)
    agreement = f"at every size the law's rate is within {reach:.2f} decades of the measured one, scatter included."
    failures = [problem for problem in problems if problem[0] is Verdict.fail]
    verdict, reason = next(iter(failures or problems), (Verdict.passed, agreement))
    notes = [text for _, text in problems if text != reason]
    if fit is not None and fit.is_wide:
        notes.append("the exponent's interval is wide: add sizes or seeds before you carry a rate beyond these sizes.")
    return TransferCheck(verdict, reason, rows, fit, tuple(notes))


def compare_sizes(first: SizeCheck, row: SizeCheck) -> SizeCheck:
    """Compare a size with the smallest one, whose rate is carried.

    Args:
        first: The measurement of the smallest size.
        row: The measurement of the size.
    """
    copied = first.found.decades - row.found.decades
    return replace(
        row,
        law_error=copied + math.log10(transfer_by_power(1.0, first.depth.total, row.depth.total)),
        copy_error=copied,
        uncertainty=0.0 if row is first else half_interval(first.error, row.error, len(row.persistent)),
    )


def half_interval(first_error: float | None, other_error: float | None, seeds: int) -> float:
    """Half of Student's interval for a difference. It is infinite if a standard error is not known.

    Args:
        first_error: The standard error of one number.
        other_error: The standard error of the other.
        seeds: The number of observations behind each.
    """
    if not (first_error and other_error):
        return math.inf
    return student_quantile(LEVEL, 2 * (seeds - 1)) * math.hypot(first_error, other_error)


def find_problems(rows: tuple[SizeCheck, ...], fit: Fit | None) -> Iterator[Problem]:
    """Reasons not to carry a rate by the law, the most important first.

    Args:
        rows: One entry per size.
        fit: The exponent over depth, None if all sizes have one depth.
    """
    yield from _growth(rows)
    yield from _exponent(fit)
    noisy = [row.size for row in rows if row.found.noisy]
    if noisy:
        text = (
            f"the steps of different batches have hardly anything in common at size {noisy[0]}, so its rate is a "
            "guess: take more or larger batches."
        )
        yield Verdict.caution, text
    for flag in dict.fromkeys(flag for row in rows for flag in row.depth.flags):
        yield Verdict.caution, flag
    widths = [found for row in reversed(rows) if (found := rows[0].depth.other_widths(row.depth))]
    if widths:
        yield Verdict.caution, f"widths differ ({widths[0]}), and the law knows depth alone: use the rule 'measured'."
    if fit is None:
        text = (
            f"effective depth is {rows[0].depth.total} at every size, so the law has nothing to say; from Python, "
            "units= counts your own blocks."
        )
        yield Verdict.caution, text
    yield from law_problems(rows)


def _growth(rows: tuple[SizeCheck, ...]) -> Iterator[Problem]:
    """Units that explode or vanish, at the size where their span is largest for its depth."""
    spans = [median(map(_span, row.energies.energies)) for row in rows]
    span, worst = max(zip(spans, rows, strict=True), key=lambda pair: pair[0] / pair[1].depth.total)
    # The span of exploding units grows with depth. Where depth does not grow, nothing speaks against it.
    deeper = rows[-1].depth.total / rows[0].depth.total
    grows = deeper == 1 or math.isinf(max(spans)) or spans[-1] > deeper**GROWTH_POWER * spans[0]
    if grows and span > GROWTH_PER_UNIT * worst.depth.total:
        squares = _squares(worst.energies.energies[0])
        text = (
            f"units {'explode' if squares[-1] > squares[0] else 'vanish'} at size {worst.size}: their mean squares "
            f"differ by a factor of {span:.2g}; initialize as depthlr does (init_), or add norms."
        )
        yield Verdict.fail, text


def _span(energy: Energy) -> float:
    """The largest mean square of a unit over the least."""
    squares = _squares(energy)
    return max(squares) / min(squares) if min(squares) > 0 else math.inf


def _squares(energy: Energy) -> list[float]:
    """Mean squares of the units; the stem is left out, because embeddings have a scale of their own."""
    units = [unit for unit in energy.hidden if unit.unit.role != "stem"] or energy.hidden
    return [unit.mean_square for unit in units]


def _exponent(fit: Fit | None) -> Iterator[Problem]:
    """A mixed parametrisation: an exponent that is surely another than any known one."""
    lowest, highest = EXPONENTS
    outside = 0.0 if fit is None else max(lowest - fit.slope, fit.slope - highest) - 2 * fit.stderr
    if fit is not None and outside > ODD_EXPONENT:
        text = (
            f"the measured exponent is {fit.slope:.2f}, far from {lowest:g} to {highest:g}: look for a multiplier or "
            "scale that depends on depth besides the initialization."
        )
        yield Verdict.fail, text


def law_problems(rows: tuple[SizeCheck, ...]) -> Iterator[Problem]:
    """The law's error, if it is large, or if it is not known whether it is.

    Args:
        rows: One entry per size, from small to large.
    """
    surest = max(rows[1:], key=lambda row: row.law_error_at_least)
    loosest = max(rows[1:], key=lambda row: row.law_error_at_most)
    farthest = max(rows[1:], key=lambda row: abs(row.law_error))
    verdict = Verdict.caution
    if surest.law_error_at_least > CLOSE_DECADES:
        verdict = Verdict.fail if surest.law_error_at_least > FAR_DECADES else Verdict.caution
        copying_is_closer = abs(surest.copy_error) < abs(surest.law_error)
        better = "copying the rate is closer" if copying_is_closer else "use the rule 'measured'"
        side = "above" if surest.law_error > 0 else "below"
        text = (
            f"the law's rate for size {surest.size} is {abs(surest.law_error):.2f} ± {surest.uncertainty:.2f} decades "
            f"{side} the measured one: {better}."
        )
    elif math.isinf(loosest.uncertainty):
        text = "how far measured rates scatter is not known: give three seeds, and let the builder draw anew."
    elif loosest.law_error_at_most > FAR_DECADES:
        text = (
            f"the law's error at size {loosest.size} is only known as {loosest.law_error:+.2f} ± "
            f"{loosest.uncertainty:.2f} decades: add seeds, or a wider model."
        )
    elif abs(farthest.law_error) > CLOSE_DECADES:
        text = (
            f"the law's error at size {farthest.size} is {farthest.law_error:+.2f} ± {farthest.uncertainty:.2f} "
            f"decades, more than {CLOSE_DECADES:g} but not surely: add seeds, or use the rule 'measured'."
        )
    else:
        return
    yield verdict, text
