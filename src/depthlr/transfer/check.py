"""Will a rate carry across these sizes? A step measured at each, the exponent, and a verdict, without training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from typing import Any

from torch import nn

from depthlr.energy.batches import Build, LossFn, built, check_draws, depth_on, draws, draws_anew, shares
from depthlr.energy.energy import update_energy_over_seeds
from depthlr.energy.persistent import persistent_energies
from depthlr.energy.progress import measuring
from depthlr.errors import DepthlrError
from depthlr.law.domain import whole
from depthlr.law.fit import Fit, fit_power_law
from depthlr.law.html import html_table
from depthlr.random_states import random_states_kept
from depthlr.trace.depth import Units
from depthlr.transfer.findings import Verdict, findings
from depthlr.transfer.rules import group_notes, group_ratios
from depthlr.transfer.size_check import TABLE, Measured, SizeCheck, against

WIDE_EXPONENT = 1.0  # an interval longer than this cannot tell the law from half a power more or less


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
    loss_fn: LossFn | None = None,
    optimizer: Any = "sgd",
    *,
    seeds: int = 3,
    units: Units = None,
    limit: int | None = None,
) -> TransferCheck:
    """Predict how well a rate tuned at the smallest of `sizes` carries to the others, by the law and by copying.

    `build(size)` gives a model initialised as it will be trained, drawn anew under each of `seeds` seeds; widths may
    change with the size. What a rule carries is compared with what `persistent_energy` says, so there must be three
    `batches` or more; a seed has `limit` of them. The optimizer is a factory or a name; the rest is as in
    `update_energy`.
    """
    wanted = _sizes(sizes)
    names = range(whole(seeds, "The number of seeds", least=1))
    check_draws(names, optimizer)
    given = shares(batches, len(names), limit, seed=0)
    makes = [partial(build, size) for size in wanted]
    models = {f"size {size}": draws(make, names) for size, make in zip(wanted, makes, strict=True)}
    with measuring(len(wanted) * len(names) * (1 + given.size)):
        energies = []
        for size, make in zip(wanted, makes, strict=True):
            with measuring(0, f"size {size}"):
                energies.append(update_energy_over_seeds(make, names, given.first, loss_fn, optimizer, units=units))
        persistent = persistent_energies(models, given, loss_fn, optimizer, seed=0)
    found = judged(
        [
            Measured(size, depth_on(_made(make), given.first, units), of_units, of_readout, draws_anew(make))
            for size, make, of_units, of_readout in zip(wanted, makes, energies, persistent, strict=True)
        ]
    )
    groups = group_notes([group_ratios(optimizer, _made(make)) for make in makes])
    return replace(found, notes=(*found.notes, *groups))


def _sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(sizes, Iterable):
        raise DepthlrError(f"sizes is {sizes!r}: name two sizes or more, such as [2, 4, 8].")
    found = tuple(whole(size, "A size", least=1) for size in sizes)
    if len(found) < 2:
        raise DepthlrError(f"sizes is {list(found)}: a rate is carried between two sizes or more, such as [2, 4, 8].")
    if any(after <= before for before, after in pairwise(found)):
        raise DepthlrError(f"sizes is {list(found)}: name them from small to large, each once.")
    return found


def _made(make: Build) -> nn.Module:
    with random_states_kept():
        return built(make)


def judged(measured: Sequence[Measured]) -> TransferCheck:
    """The gravest finding is the verdict, the first of its kind the reason; the others are notes."""
    fit = None
    if len({row.depth.total for row in measured}) > 1:
        depths = [row.depth.total for row in measured for _ in row.rates]
        fit = fit_power_law(depths, list(chain(*(row.rates for row in measured))))
    rows = tuple(against(measured[0], row) for row in measured)
    found = list(findings(rows, fit))
    for verdict in (Verdict.fail, Verdict.caution):
        reasons = [text for gravity, text in found if gravity is verdict]
        if reasons:
            break
    else:
        verdict = Verdict.passed
        reach = max(abs(row.law_error) + row.uncertainty for row in rows)
        reasons = [f"at every size the law's rate is within {reach:.2f} decades of the measured one, scatter included."]
    rest = [text for _, text in found if text != reasons[0]]
    return TransferCheck(verdict, reasons[0], rows, fit, (*rest, *_notes(fit)))


def _notes(fit: Fit | None) -> Iterator[str]:
    if fit is not None and not fit.interval[1] - fit.interval[0] <= WIDE_EXPONENT:
        yield "the exponent's interval is wide: add sizes or seeds before you carry a rate beyond these sizes."
