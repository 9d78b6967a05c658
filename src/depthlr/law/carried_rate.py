"""A carried rate, its interval, and the evidence behind both.

The figures are those of docs/results.md and docs/transferbench.md. Tests compute them from the committed tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from depthlr.errors import DepthlrError
from depthlr.formatting import html_table

# How the models are initialized, as far as a rule saw it.
UNSEEN = "not seen"  # depths, or weights on the meta device
AS_INIT = "as init_ draws it"
OTHER_INIT = "not as init_ draws it"
AS_IT_IS = "measured as it is"
NOT_INIT = (
    "the weights are not as large as init_ draws them (trained, or initialized otherwise), and the law holds for that "
    "initialization alone: call depthlr.init_ on both models and train them so, or use the rule 'measured'."
)
EVIDENCE = (
    "Only the interval of 'constant' is from long runs: all others are from runs of 100 to 200 steps. In longer runs "
    "with warm-up and decay, rates fall much more slowly with depth. For a long run give steps or schedule: the rule "
    "is then 'constant'."
)
CONSTANT_EVIDENCE = (
    "The exponent and its interval were fitted on 6 recipes of 1,200 steps with warm-up and decay, over a factor of "
    "5.7 in effective depth. They have not been judged on other recipes yet."
)
# Properties of models, optimizers and runs: keys of a rule's findings, as the names of initializations are.
PRE_NORM, BATCH_NORM, ADAPTIVE = "pre-norm", "batch-norm", "adaptive"
CONSTANT_RATE, UNKNOWN_SCHEDULE, FAR = "constant rate", "unknown schedule", "far"
VERY_FEW_STEPS, FEW_STEPS, MANY_STEPS = "very few steps", "few steps", "many steps"
WITHOUT_DECAY = ("constant", "warmup", "warmup-constant", "constant_with_warmup")  # names of schedules
LEAST_STEPS, MOST_STEPS = 1_000, 12_000  # beyond these a run is unlike the 1,200 steps that `constant` was fitted on
SHORTEST_STEPS = 100  # of a run that `constant` says anything about: the shortest that were tuned have 120
MOST_RATIO = 5.7  # of two depths between which `constant` was fitted
USE_MEASURED = "use the rule 'measured', which looks at both models and at batches of your data."
COVERAGE = 0.8  # of tuned rates lie within a stated interval
NORMAL_QUANTILE = 1.28  # a normal variable is within this many standard deviations of its mean with that probability
MOST_DOUBLINGS = 5  # of depth: the farthest transfer that gets an interval; tasks reach 2.7
EXPONENT_SPREAD = 0.65  # root mean square of tuned exponents minus the law's, over 24 tasks of TransferBench
# RealBench's design recipes: one standard deviation of a recipe's exponent and of a tuned rate (decades), and the
# quantile of Student's t that makes an interval of them; python -m experiments.realbench constant
RECIPE_SPREAD, TUNING_NOISE, STUDENT_QUANTILE = 0.24, 0.02, 1.53
LEAST_SPREAD = 0.1  # decades: models close in depth may differ in ways that the law does not describe


@dataclass(frozen=True)
class Finding:
    """What tuned rates showed for models, optimizers or runs with some property, or that there are none."""

    sentence: str
    interval_held: bool  # was the interval's coverage near 80 %? If not, the rule is out of scope


# TransferBench's errors are medians over the tasks' medians, of rates carried to a deeper model.
LAW_FINDINGS = {
    OTHER_INIT: Finding(NOT_INIT, interval_held=False),
    PRE_NORM: Finding(
        "the blocks are pre-norm (LayerNorm or RMSNorm before a branch), and there the law is too steep: tuned rates "
        "fell as depth^-0.20 with SGD and as depth^-0.78 with AdamW. In 8 short tasks the law missed the tuned rate by "
        f"0.34 decades and 'measured' by 0.07: {USE_MEASURED}",
        interval_held=False,
    ),
    BATCH_NORM: Finding(
        "the model has BatchNorm, and there the law is too flat: tuned rates of a ResNet fell as depth^-2.32 with SGD. "
        f"In 2 short tasks the law missed the tuned rate by 0.23 decades and 'measured' by 0.11: {USE_MEASURED}",
        interval_held=True,
    ),
    ADAPTIVE: Finding(
        "the law was derived for SGD, and this optimizer's step does not grow with the gradient: with Adam tuned rates "
        "fell as depth^-1.19 (CNN) and as depth^-1.12 (ResNet). In 18 short tasks the law missed the tuned rate by "
        f"0.19 decades and 'measured' by 0.07: {USE_MEASURED}",
        interval_held=True,
    ),
}

# What RealBench's recipes say of runs unlike them; the exponents at 120 steps are those of docs/realbench.md.
CONSTANT_FINDINGS = {
    AS_INIT: Finding(
        "the weights are as init_ draws them, and the exponent was fitted on models as libraries initialize them: "
        "train with the library's initialization, or sweep rates around this one.",
        interval_held=False,
    ),
    CONSTANT_RATE: Finding(
        "the rate does not decay in this run, and the exponent was fitted on runs with warm-up and decay alone: train "
        "with such a schedule, or sweep rates around this one.",
        interval_held=False,
    ),
    UNKNOWN_SCHEDULE: Finding(
        "the schedule is not given, and the exponent was fitted on runs with warm-up and decay alone: give it, as "
        "'warmup-cosine', or as 'constant' if the rate does not change.",
        interval_held=True,
    ),
    FEW_STEPS: Finding(
        f"the run has fewer than {LEAST_STEPS:,} steps, and the exponent was fitted on 1,200: with the whole schedule "
        "in 120 steps, tuned rates of four of these recipes fell as depth^-0.37, depth^-0.35, depth^-0.32 and "
        "depth^-0.05.",
        interval_held=True,
    ),
    VERY_FEW_STEPS: Finding(
        f"the run has fewer than {SHORTEST_STEPS} steps, and runs of fewer than 120 were not tested.",
        interval_held=False,
    ),
    FAR: Finding(
        f"the depths differ by more than a factor of {MOST_RATIO}, up to which the exponent was fitted: beyond it the "
        "interval is an extrapolation.",
        interval_held=True,
    ),
    MANY_STEPS: Finding(
        f"the run has more than {MOST_STEPS:,} steps, and the exponent was fitted on 1,200: runs as long as this one "
        "were not tested.",
        interval_held=True,
    ),
}


def decays(schedule: str | None) -> bool:
    """Whether a run of this schedule ends with a lower rate; False if the schedule is not known.

    Args:
        schedule: The name of the schedule, ours or that of another library.
    """
    return schedule is not None and schedule not in WITHOUT_DECAY


def run_properties(schedule: str | None, steps: int | None) -> set[str]:
    """What is known of a run, as keys of findings.

    Args:
        schedule: The name of the schedule, "constant" if there is none. None if that is not known.
        steps: How many steps the run has. None if that is not known.
    """
    may_decay = schedule not in WITHOUT_DECAY
    properties = {
        CONSTANT_RATE: not may_decay,
        UNKNOWN_SCHEDULE: schedule is None,
        FEW_STEPS: may_decay and steps is not None and SHORTEST_STEPS <= steps < LEAST_STEPS,
        VERY_FEW_STEPS: may_decay and steps is not None and steps < SHORTEST_STEPS,
        MANY_STEPS: steps is not None and steps > MOST_STEPS,
    }
    return {name for name, holds in properties.items() if holds}


@dataclass(frozen=True)
class ErrorBound:
    """The error that `COVERAGE` of carried rates stay below on TransferBench's design tasks.

    Args:
        decades: The error at twice the depth.
        power: The error grows as this power of the number of doublings.
    """

    decades: float
    power: float

    def at(self, source_depth: float, target_depth: float) -> float:
        """The bound in decades for a transfer between two depths.

        Args:
            source_depth: Effective depth of the source.
            target_depth: Effective depth of the target.
        """
        return float(self.decades * doublings(source_depth, target_depth) ** self.power)


LAW_ERROR = ErrorBound(0.26, 1.0)  # the exponent is wrong, so the error grows with every doubling
MEASURED_ERROR = ErrorBound(0.15, 0.5)
ONE_DRAW_ERROR = ErrorBound(0.26, 0.5)


def doublings(source_depth: float, target_depth: float) -> float:
    """How many doublings of depth lie between two depths, in either direction.

    Args:
        source_depth: Effective depth of the source.
        target_depth: Effective depth of the target.
    """
    return abs(math.log2(target_depth) - math.log2(source_depth))


def constant_error(source_depth: float, target_depth: float) -> float:
    """The error in decades that `COVERAGE` of rates carried by the constant exponent should stay below.

    Args:
        source_depth: Effective depth of the source.
        target_depth: Effective depth of the target.
    """
    spread = RECIPE_SPREAD * math.log10(target_depth / source_depth)
    return STUDENT_QUANTILE * math.hypot(spread, math.sqrt(2) * TUNING_NOISE)  # source and target are tuned with noise


def law_share(standard_error: float, source_depth: float, target_depth: float) -> float:
    """The weight of the law, from 0 to 1, in its mean with a measured change of the rate.

    Both are weighted by their inverse variance. The law's error grows with the decades of depth between the models.

    Args:
        standard_error: Of the measured change, in decades.
        source_depth: Effective depth of the source.
        target_depth: Effective depth of the target.
    """
    spread = math.hypot(LEAST_SPREAD, EXPONENT_SPREAD * math.log10(target_depth / source_depth))
    return standard_error**2 / (standard_error**2 + spread**2)


@dataclass(frozen=True)
class CarriedRate:
    """A rate for the target, and how it was computed."""

    rate: float
    rule: str
    source_depth: float
    target_depth: float
    factor: float  # rate at the target / rate at the source
    assumes: str
    notes: tuple[str, ...] = ()
    low: float | None = None  # an interval that holds the best rate with probability `coverage`, if that was tested
    high: float | None = None
    coverage: float = COVERAGE
    in_scope: bool = True  # False if a note says that the rule's preconditions do not hold
    initialization: str = UNSEEN  # of the models, as the rule saw it
    evidence: str = ""  # what the interval was calibrated on, if there is one

    def __float__(self) -> float:
        return self.rate

    def with_interval(self, decades: float, evidence: str) -> CarriedRate:
        """The same rate with an interval. Depths that are equal or too far apart get none.

        Args:
            decades: The length of the interval to each side.
            evidence: What it was calibrated on.
        """
        if not 0 < doublings(self.source_depth, self.target_depth) <= MOST_DOUBLINGS:
            return self
        return replace(self, low=self.rate / 10**decades, high=self.rate * 10**decades, evidence=evidence)

    def out_of_scope(self, reasons: Sequence[str]) -> CarriedRate:
        """The same rate with reasons to distrust it, and so without an interval.

        Args:
            reasons: One note for each. If there are none, nothing changes.
        """
        if not reasons:
            return self
        return replace(self, notes=(*reasons, *self.notes), in_scope=False, low=None, high=None, evidence="")

    def _repr_html_(self) -> str:
        row = (self.rule, f"{self.source_depth:g}", f"{self.target_depth:g}", f"{self.factor:.3g}", self._interval())
        columns = ("rule", "from depth", "to depth", "factor", f"{self.coverage:.0%} interval", "in scope", "weights")
        rows = [(*row, "yes" if self.in_scope else "no", self.initialization)]
        notes = [line for line in (self.assumes, *self.notes, self.evidence) if line]
        return html_table(f"{self.rate:.3g}", columns, rows, notes)

    def __str__(self) -> str:
        way = f"{self.rule}: depth {self.source_depth:g} -> {self.target_depth:g}"
        held = "" if self.low is None else f", {self.coverage:.0%} {self._interval()}"
        scope = "" if self.in_scope else ", outside the rule's scope"
        notes = [line for line in (*self.notes, self.evidence) if line]
        return "\n".join([f"{self.rate:.3g} ({way}, x {self.factor:.3g}{held}{scope})", *notes])

    def _interval(self) -> str:
        return "not known" if self.low is None else f"{self.low:.3g} to {self.high:.3g}"


def finite_rate(rate: float, source: object, target: object) -> float:
    """Return a carried rate, or raise an error if it is outside the range of floats.

    Args:
        rate: The rate at the target.
        source: What the error calls the source.
        target: What the error calls the target.
    """
    if not (math.isfinite(rate) and rate > 0):
        raise DepthlrError(
            f"The rate carried from {source} to {target} is {rate:g}, outside what a float can hold: "
            "choose a source nearer to the target."
        )
    return rate
