"""Loss curves, and reasons to doubt a best rate: the model hardly learns, or the minimum is no deeper than noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from depthlr.law.curve import Optimum
from depthlr.models.spec import parse_spec
from depthlr.models.zoo import ZOO
from depthlr.study.description import Study
from depthlr.training.training import LOSS

NEAR_GUESSING = 0.04  # the smallest relative improvement over guessing for a best rate to be worth much
NEAR_OPTIMUM = 0.5  # decades
CURVED = 2.0  # standard errors: of noise alone one dip in ten looks deeper
LEAST_FREEDOM = 3  # cells beyond those that a parabola and the seeds' levels take: fewer show no noise
RETRY = "--retry-failed, or retry_failed=True,"  # what trains failed cells again


@dataclass(frozen=True)
class Curve:
    """Loss against rate at one size and seed, small rates first."""

    size: int
    seed: int
    rates: tuple[float, ...]
    losses: tuple[float, ...]
    optimum: Optimum | None  # None where no rate that was run has a loss
    failed: frozenset[float] = frozenset()  # the rates whose cells failed; their losses stand as infinite, too

    @property
    def diverged(self) -> frozenset[float]:
        """The rates that diverged."""
        pairs = zip(self.rates, self.losses, strict=True)
        return frozenset(rate for rate, loss in pairs if loss == math.inf) - self.failed

    @property
    def inside(self) -> bool:
        """Does its optimum lie inside the range of rates? At the edge it is a bound, and no optimum."""
        return self.optimum is not None and not self.optimum.at_edge

    @property
    def fault(self) -> str | None:
        """Why a fit leaves it out, if it does."""
        best = self.optimum
        if best is None and self.failed:
            some = f"{len(self.failed)} of {len(self.rates)} cells failed and the others diverged"
            how = some if self.diverged else "every cell failed"
            return f"{how}, so it has no optimum; {RETRY} trains the failed cells again"
        if best is None:
            diverged = f"every rate diverged, down to {self.rates[0]:g}, so it has no optimum"
            return f"{diverged}; lower the lowest rate, in a new file"
        if best.edge is None:
            return None
        end, change = ("lowest", "lower") if best.edge == "low" else ("highest", "raise")
        cut = f"the optimum is the {end} rate allowed, {best.rate:g}, and is not fitted"
        return f"{cut}; {change} the {end} rate, in a new file"


def chance_loss(study: Study) -> float | None:
    """The cross-entropy of guessing with equal probabilities. None if loss or number of classes is not known.

    Args:
        study: The study.
    """
    if study.model.spec is None:
        return None
    spec = parse_spec(study.model.spec)
    if spec.family != "zoo" or study.training.loss != LOSS:
        return None
    arguments = ZOO[spec.name].defaults | dict(spec.arguments)
    return math.log(arguments["vocabulary"] if "vocabulary" in arguments else arguments["classes"])


def doubts(curves: Sequence[Curve], chance: float | None, judged_by: str = "loss") -> dict[int, str]:
    """Why a best rate means little, in words, by size. Sizes with a sound best rate, or without any, are not included.

    Args:
        curves: The curves of all sizes and seeds.
        chance: The loss of guessing. None if it is not known.
        judged_by: What the sentences call the loss.
    """
    inside = [curve for curve in curves if curve.inside]
    found = {}
    for size, known in by_size(inside).items():
        if chance is not None and least_loss(known) > (1 - NEAR_GUESSING) * chance:
            found[size] = (
                f"hardly learns: its best {judged_by}, {least_loss(known):.3g}, is less than {NEAR_GUESSING:.0%} below "
                f"that of guessing, {chance:.3g}"
            )
        elif _is_flat(known):
            found[size] = f"has no clear optimum: around its best rate the {judged_by} dips no deeper than its noise"
    return found


def _is_flat(curves: Sequence[Curve]) -> bool:
    """Is the minimum no deeper than the noise, that is, the curvature less than two standard errors?

    One parabola of log loss over log rate is fitted to all seeds near their best rates, with one level per seed. A cell
    that failed says nothing of the loss, and is left out.
    """
    known = [curve for curve in curves if curve.optimum is not None and curve.optimum.loss > 0]
    if not known:
        return False
    middle = median(math.log10(curve.optimum.rate) for curve in known if curve.optimum)
    rows, values = [], []
    for seed, curve in enumerate(known):
        near = [
            (math.log10(rate) - middle, loss)
            for rate, loss in zip(curve.rates, curve.losses, strict=True)
            if abs(math.log10(rate) - middle) <= NEAR_OPTIMUM and rate not in curve.failed
        ]
        worst = max((loss for _, loss in near if loss < math.inf), default=math.inf)  # what a diverged run had at least
        for x, loss in near if worst < math.inf else []:
            rows.append([x * x, x, *(float(seed == other) for other in range(len(known)))])
            values.append(math.log(min(loss, worst)))
    freedom = len(values) - len(known) - 2
    if freedom < LEAST_FREEDOM:
        return False
    design, losses = np.array(rows), np.array(values)
    solution = np.linalg.pinv(design) @ losses
    variance = float(np.sum((losses - design @ solution) ** 2)) / freedom
    error = math.sqrt(max(0.0, variance * float(np.linalg.pinv(design.T @ design)[0, 0])))
    return bool(solution[0] <= CURVED * error)


def least_loss(curves: Sequence[Curve]) -> float:
    """The least loss of the median seed.

    Args:
        curves: The curves of a size.
    """
    return median(min(curve.losses) for curve in curves)


def by_size(curves: Sequence[Curve]) -> dict[int, list[Curve]]:
    """The curves of each size.

    Args:
        curves: The curves of all sizes and seeds.
    """
    found: dict[int, list[Curve]] = {}
    for curve in curves:
        found.setdefault(curve.size, []).append(curve)
    return dict(sorted(found.items()))
