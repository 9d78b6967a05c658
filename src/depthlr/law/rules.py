"""Rules that carry a rate across depth: the power law, the peers' rules with what they assume, and PathSum."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from depthlr import check
from depthlr.errors import DepthlrError, did_you_mean
from depthlr.law.carried_rate import (
    ADAPTIVE,
    CONSTANT_EVIDENCE,
    CONSTANT_FINDINGS,
    EVIDENCE,
    FAR,
    LAW_ERROR,
    LAW_FINDINGS,
    MOST_RATIO,
    UNSEEN,
    CarriedRate,
    Finding,
    constant_error,
    decays,
    doublings,
    finite_rate,
    run_properties,
)

Family = Literal["sgd", "adam"]

LAW_EXPONENT = -1.5  # Prop. 1 (CNN) and its residual and Transformer twins: eta* = kappa L^(-3/2)
CONSTANT_EXPONENT = -0.2  # fitted on the design recipes of RealBench: python -m experiments.realbench constant
LONG_RUN = 500  # steps; evidence from short runs ends at 200, that of RealBench is from 1,200

# The exponent depends on whether the step grows with the gradient, so any optimizer belongs to one of two families:
# "sgd", where it does (SGD, momentum, Nesterov), and "adam", where it does not (Adam, AdamW, RMSprop, Adafactor, Lion,
# LAMB; also Muon, Shampoo and SOAP, which orthogonalise or whiten the gradient: same depth exponent, other width rule).
FAMILIES: tuple[Family, ...] = ("sgd", "adam")

# The optimizers that can be named, with their family.
OPTIMIZER_FAMILIES: dict[str, Family] = {
    "sgd": "sgd",
    "momentum": "sgd",
    "adam": "adam",
    "adamw": "adam",
    "muon": "adam",
}

# The schedules that can be named: how the rate changes during a run.
SCHEDULES = ("constant", "warmup", "cosine", "warmup-cosine", "linear", "warmup-linear", "wsd")

_NO_MULTIPLIER = (
    "Never combine -3/2 with a forward 1/sqrt(L) multiplier on the branches: "
    "the multiplier shrinks the weight gradients too, so depth would be paid for twice."
)

MEASURING_RULES = ("measured", "am-mup")  # they look at models; `depthlr.transfer.rules` holds them


@dataclass(frozen=True)
class DepthRule:
    """A rule that needs depths alone: its exponents, what it assumes, and how it was tested.

    The rate at the target is rate * (target_depth / source_depth) ** exponent. PathSum is the one exception.

    Args:
        name: The name of the rule.
        source: Who prescribes it.
        assumes: What must hold for it, in sentences.
        exponent_sgd: The power of the depth for the family "sgd". None if its authors prescribe nothing.
        exponent_adam: The same for the family "adam".
        counts: The depth that it takes: "total"; "updates", the residual updates without stem and head; or "paths",
            and then it is no power of a depth, and `pathsum_transfer` takes the counts of units.
        error: Takes two depths and returns the 80th percentile of the error, in decades. None if the rule was not
            compared with tuned rates.
        evidence: What the error was calibrated on, in sentences. Empty without `error`.
        findings: What tuned rates showed for models, optimizers and runs, by a property of these.
        multiplier_power: The power of the residual updates by which the forward multiplier of the branches must change;
            0 if it must not. None if the rule says nothing of it.
        needs_untied: Models whose head is tied to the embedding are out of its scope.
    """

    name: str
    source: str
    assumes: str
    exponent_sgd: float | None
    exponent_adam: float | None
    counts: Literal["total", "updates", "paths"] = "total"
    error: Callable[[float, float], float] | None = None
    evidence: str = ""
    findings: Mapping[str, Finding] = field(default_factory=dict)
    multiplier_power: float | None = None
    needs_untied: bool = False

    def exponent(self, family: Family) -> float | None:
        """The exponent of the depth, None if the authors prescribe nothing.

        Args:
            family: The optimizer family.
        """
        check.one_of("The optimizer family", family, FAMILIES)
        return self.exponent_sgd if family == "sgd" else self.exponent_adam

    def new_rate(self, rate: float, source_depth: float, target_depth: float, family: Family = "sgd") -> float:
        """The rate at the target depth.

        Args:
            rate: The rate tuned at the source depth.
            source_depth: The depth of the source, as this rule counts it.
            target_depth: The same of the target.
            family: The optimizer family.

        Raises:
            DepthlrError: The rule prescribes no power of the depth for this family.
        """
        exponent = self.exponent(family)
        if self.counts == "paths":
            raise DepthlrError(
                f"The rule {self.name!r} is not a power of the depth: "
                "call pathsum_transfer with the counts of plain and residual units."
            )
        if exponent is None:
            able = ", ".join(other.name for other in RULES.values() if other.exponent(family) is not None)
            raise DepthlrError(
                f"The rule {self.name!r} ({self.source}) prescribes nothing for optimizers of the {family!r} family: "
                f"choose one of {able}."
            )
        return transfer_by_power(rate, source_depth, target_depth, exponent)

    def carry_depths(
        self,
        rate: float,
        source_depth: float,
        target_depth: float,
        family: Family = "sgd",
        *,
        schedule: str | None = None,
        steps: int | None = None,
    ) -> CarriedRate:
        """Carry a rate between two effective depths: arithmetic, without a model.

        Args:
            rate: The rate tuned at the source depth.
            source_depth: Effective depth of the source.
            target_depth: Effective depth of the target.
            family: The optimizer family.
            schedule: How the rate changes during the run, "constant" if it does not. None if that is not known.
            steps: How many steps the run has. None if that is not known.
        """
        new = self.new_rate(rate, source_depth, target_depth, family)
        properties = run_properties(schedule, steps) | ({ADAPTIVE} if family == "adam" else set())
        return self.carried_rate(rate, new, source_depth, target_depth, properties=properties)

    def carried_rate(
        self,
        rate: float,
        new_rate: float,
        source_depth: float,
        target_depth: float,
        *,
        violations: Sequence[str] = (),
        properties: Collection[str] = (),
        initialization: str = UNSEEN,
    ) -> CarriedRate:
        """A carried rate with its notes, and with its interval if the rule was compared with tuned rates.

        Args:
            rate: The rate at the source.
            new_rate: The rate at the target.
            source_depth: Effective depth of the source.
            target_depth: Effective depth of the target.
            violations: One note for each precondition of the rule that does not hold.
            properties: Of the models, the optimizer and the run: keys of `findings`.
            initialization: How the models are initialized, if that is known.
        """
        if doublings(source_depth, target_depth) > math.log2(MOST_RATIO):
            properties = {*properties, FAR}
        found = [finding for key, finding in self.findings.items() if key in properties]
        in_scope = not violations and all(finding.interval_held for finding in found)
        carried = CarriedRate(
            rate=new_rate,
            rule=self.name,
            source_depth=source_depth,
            target_depth=target_depth,
            factor=new_rate / rate,
            assumes=self.assumes,
            notes=(*violations, *(finding.sentence for finding in found)),
            in_scope=in_scope,
            initialization=initialization,
        )
        if self.error is None or not carried.in_scope:
            return carried
        return carried.with_interval(self.error(source_depth, target_depth), self.evidence)


RULES: dict[str, DepthRule] = {
    "copy": DepthRule(
        name="copy",
        source="common practice",
        assumes="The best rate does not depend on depth; the rate is kept as it is.",
        exponent_sgd=0.0,
        exponent_adam=0.0,
    ),
    "constant": DepthRule(
        name="constant",
        source="RealBench, docs/realbench.md",
        assumes=(
            "Training as people run it: the library's initialization, warm-up and decay, 1,000 steps or more, the rate "
            "tuned for the validation loss at the end; equal widths. One exponent for every model and optimizer."
        ),
        exponent_sgd=CONSTANT_EXPONENT,
        exponent_adam=CONSTANT_EXPONENT,
        error=constant_error,
        evidence=CONSTANT_EVIDENCE,
        findings=CONSTANT_FINDINGS,
        multiplier_power=0.0,
    ),
    "law": DepthRule(
        name="law",
        source="Hyperparameter Transfer Laws for Non-Recurrent Multi-Path Neural Networks",
        assumes=(
            "Fan-in initialization, with residual branches scaled once by K^(-1/2) at initialization and no multiplier "
            "in the forward pass; equal widths; effective depth counts residual updates. Derived for one SGD step; "
            f"for Adam the exponent is empirical. {_NO_MULTIPLIER}"
        ),
        exponent_sgd=LAW_EXPONENT,
        exponent_adam=LAW_EXPONENT,
        error=LAW_ERROR.at,
        evidence=EVIDENCE,
        findings=LAW_FINDINGS,
        multiplier_power=0.0,
        needs_untied=True,
    ),
    "jelassi": DepthRule(
        name="jelassi",
        source="Jelassi 2023",
        assumes=f"A ReLU MLP without residual connections, fan-in initialization, SGD. {_NO_MULTIPLIER}",
        exponent_sgd=-1.5,
        exponent_adam=None,
        multiplier_power=0.0,
    ),
    "depth-mup": DepthRule(
        name="depth-mup",
        source="Bordelon 2024, Yang 2023",
        assumes=(
            "A residual network whose branches are multiplied by 1/sqrt(L) in the forward pass at every depth, "
            f"under muP in width. {_NO_MULTIPLIER}"
        ),
        exponent_sgd=0.0,
        exponent_adam=-0.5,
        counts="updates",
        multiplier_power=-0.5,
    ),
    "completep": DepthRule(
        name="completep",
        source="Dey 2025",
        assumes=(
            "A pre-norm Transformer whose branches are multiplied by 1/L in the forward pass at every depth, under muP "
            "in width, with Adam; its authors prescribe nothing for SGD. Never combine -3/2 with such a multiplier."
        ),
        exponent_sgd=None,
        exponent_adam=0.0,
        counts="updates",
        multiplier_power=-1.0,
    ),
    "u-mup": DepthRule(
        name="u-mup",
        source="u-muP's public code",
        assumes=(
            "Unit-scaled layers whose branches are multiplied by about 1/sqrt(L) in the forward pass; "
            f"the code divides the rate by sqrt(L) for every optimizer. {_NO_MULTIPLIER}"
        ),
        exponent_sgd=-0.5,
        exponent_adam=-0.5,
        counts="updates",
        multiplier_power=-0.5,
    ),
    "pathsum": DepthRule(
        name="pathsum",
        source="Chen 2024",
        assumes=(
            "SGD on a graph of weighted units with no scaling of branches; the rate follows the sum over paths of the "
            "path length cubed, which is -3/2 for a plain stack. It needs the counts of plain and residual units. "
            f"{_NO_MULTIPLIER}"
        ),
        exponent_sgd=None,
        exponent_adam=None,
        counts="paths",
        multiplier_power=0.0,
    ),
}


def transfer_by_power(rate: float, source_depth: float, target_depth: float, exponent: float = LAW_EXPONENT) -> float:
    """The rate at the target depth: rate * (target_depth / source_depth) ** exponent.

    Args:
        rate: The rate tuned at the source depth.
        source_depth: Effective depth of the source.
        target_depth: Effective depth of the target.
        exponent: The power of the depth.
    """
    tuned = check.positive("The rate", rate)
    source = check.positive("The source depth", source_depth)
    target = check.positive("The target depth", target_depth)
    power = check.finite("The exponent", exponent)
    try:
        new = tuned * (target / source) ** power
    except (OverflowError, ZeroDivisionError):
        new = math.inf
    return finite_rate(new, f"depth {source:g}", f"depth {target:g}")


def recommended_rule(
    *, schedule: str | None = None, steps: int | None = None, own_init: bool = False, measurable: bool = False
) -> str:
    """The name of the rule that the evidence recommends for a recipe.

    Args:
        schedule: How the rate changes during the run: "constant" or "warmup" if it does not decay, or any other name,
            such as "warmup-cosine". None if that is not known.
        steps: How many steps the run has. None if that is not known.
        own_init: The model is initialized by its library, and not by `init_`.
        measurable: There are models and batches to measure.
    """
    if decays(schedule) or (steps or 0) >= LONG_RUN:
        return "constant"
    if measurable:
        return "measured"
    return "constant" if own_init else "law"


def rule_named(name: str) -> DepthRule:
    """The rule of depth with that name.

    Args:
        name: A name in `RULES`.

    Raises:
        DepthlrError: There is no such rule. The sentence lists all rules and says which name is near.
    """
    if name in RULES:
        return RULES[name]
    known = (*MEASURING_RULES, *RULES)
    hint = did_you_mean(str(name).lower().replace("_", "-"), known)
    raise DepthlrError(f"There is no rule {name!r}{hint}: choose one of {', '.join(known)}.")


def log_pathsum(*, plain: int, residual: int) -> float:
    """log of the sum over all paths of the path length cubed, for a stack of m plain and K residual units.

    Every path runs through all plain units, and takes or skips each residual unit (one unit per branch). So 2^K paths
    exist, and C(K, k) of them have m + k units. No path is enumerated:

    sum_k C(K, k) (m + k)^3 = 2^K E[(m + X)^3], where X ~ Binomial(K, 1/2)

    Args:
        plain: The number of plain units, m.
        residual: The number of residual units, K.
    """
    m = check.count("The number of plain units", plain, least=0)
    k = check.count("The number of residual units", residual, least=0)
    if m + k == 0:
        raise DepthlrError("PathSum needs at least one weighted unit: give a plain or a residual count above 0.")
    x, x2, x3 = 4 * k, 2 * k * (k + 1), k * k * (k + 3)  # 8 E X, 8 E X^2 and 8 E X^3: exact in integers
    eightfold = 8 * m**3 + 3 * m**2 * x + 3 * m * x2 + x3  # 8 E[(m + X)^3]
    return k * math.log(2.0) + math.log(eightfold / 8)


def pathsum_transfer(rate: float, *, source: tuple[int, int], target: tuple[int, int]) -> float:
    """The rate for the target by PathSum (Chen 2024): rate ~ (sum over paths of the path length cubed) ** (-1/2).

    On residual stacks without branch scaling the rate falls exponentially (2^K paths), not as a power of the depth.

    Args:
        rate: The rate tuned on the source.
        source: The numbers of plain units (on every path) and of residual units (each on half of the paths).
        target: The same of the target.
    """
    tuned = check.positive("The rate", rate)
    before, after = (log_pathsum(plain=plain, residual=residual) for plain, residual in (source, target))
    try:
        new = tuned * math.exp((before - after) / 2)
    except OverflowError:
        new = math.inf
    return finite_rate(new, f"units {source}", f"units {target}")
