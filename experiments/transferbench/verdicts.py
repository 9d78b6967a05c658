"""Does `check_transfer` warn where the law fails? Its verdict on a task, and the errors of the law there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from depthlr.energy.energy import Energy, EnergyOverSeeds, UnitEnergy
from depthlr.law.rules import transfer_by_power
from depthlr.trace.depth import Depth
from depthlr.trace.units import Unit
from depthlr.transfer.check import SizeCheck, Verdict, judge
from experiments.transferbench.measured import Measured
from experiments.transferbench.scores import Known

FAILS = 0.2  # decades


@dataclass(frozen=True)
class Judgement:
    """A task's verdict, and the largest error of carrying its smallest size's best rate by the law."""

    task: str
    verdict: Verdict
    error: float

    @property
    def fails(self) -> bool:
        return self.error > FAILS


def judgement(known: Known) -> Judgement | None:
    """None where persistent energies or optima are missing."""
    sizes = [size for size in known.sizes if known.measured[size].persistent]
    if len(sizes) < 2:
        return None
    found = judge([_as_measured(known.measured[size]) for size in sizes])
    best = {size: known.oracle.rate(size) or 0.0 for size in sizes}
    depths = {size: known.measured[size].depth for size in sizes}
    first = sizes[0]
    errors = [
        best[first] + math.log10(transfer_by_power(1.0, depths[first], depths[size])) - best[size] for size in sizes[1:]
    ]
    return Judgement(known.name, found.verdict, max(map(abs, errors)))


def sentence(judgements: Sequence[Judgement]) -> str:
    """How many failures were warned about, and how many warnings were false."""
    failing = [one for one in judgements if one.fails]
    fine = [one for one in judgements if not one.fails]
    warned = [one for one in failing if one.verdict is not Verdict.passed]
    missed = [f"{one.task} ({one.error:.2f})" for one in failing if one.verdict is Verdict.passed]
    return (
        f"In {len(failing)} tasks the law's rate, carried from the smallest size, misses the tuned rate of some size "
        f"by more than {FAILS:g} decades. `check_transfer` gives caution or fail for {len(warned)} of them"
        + (f" (not for {', '.join(missed)})" if missed else "")
        + f". Of the {len(fine)} other tasks, {sum(one.verdict is Verdict.passed for one in fine)} pass."
    )


def _as_measured(found: Measured) -> SizeCheck:
    """As `check_transfer` would have measured it; the width stands with a unit, as it reads it from there."""
    unit = Unit("plain", "body", "", "", found.width, 0, 0)
    stem = Unit("plain", "stem", "", "", found.width, 0, 0)
    energies = []
    for step in found.steps:
        # A stem is the first unit, if it is plain and residual updates follow.
        units = [stem if not place and found.residual else unit for place in range(len(step.hidden))]
        hidden = tuple(
            UnitEnergy(one, change.energy, change.mean_square) for one, change in zip(units, step.hidden, strict=True)
        )
        energies.append(Energy(hidden, step.readout.energy, step.readout.mean_square, step.loss))
    draws = tuple(draw.found for draw in found.persistent)
    return SizeCheck(found.size, Depth(found.depth, found.depth, (unit,)), EnergyOverSeeds(tuple(energies)), draws)
