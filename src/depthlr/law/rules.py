"""Rules that carry a rate across depth: the power law, the peers' rules with what they assume, and PathSum."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from depthlr import check
from depthlr.errors import DepthlrError, did_you_mean

Family = Literal["sgd", "adam"]

LAW_EXPONENT = -1.5  # Prop. 1 (CNN) and its residual and Transformer twins: eta* = kappa L^(-3/2)
CONSTANT_EXPONENT = -0.2  # fitted on the design recipes of RealBench: python -m experiments.realbench constant
LONG_RUN = 500  # steps; evidence from short runs ends at 200, that of RealBench is from 1,200

# The exponent depends on whether the step grows with the gradient, so any optimizer belongs to one of two families.
FAMILIES: dict[Family, str] = {
    "sgd": "the step is proportional to the gradient (SGD, momentum, Nesterov)",
    "adam": (
        "the step does not grow with the gradient (Adam, AdamW, RMSprop, Adafactor, Lion, LAMB; also Muon, Shampoo and "
        "SOAP, which orthogonalise or whiten the gradient: same depth exponent, different width rule)"
    ),
}

# The optimizers that can be named, with their family.
OPTIMIZER_FAMILIES: dict[str, Family] = {
    "sgd": "sgd",
    "momentum": "sgd",
    "adam": "adam",
    "adamw": "adam",
    "muon": "adam",
}

_NO_MULTIPLIER = (
    "Never combine -3/2 with a forward 1/sqrt(L) multiplier on the branches: "
    "the multiplier shrinks the weight gradients too, so depth would be paid for twice."
)


MEASURING_RULES = ("measured", "am-mup")  # they look at models; `depthlr.transfer.rules` holds them


@dataclass(frozen=True)
class Rule:
    """A rule of depth: one exponent for each optimizer family, None if its authors prescribe nothing."""

    name: str
    source: str
    assumes: str
    exponent_sgd: float | None
    exponent_adam: float | None
    over_updates: bool = False  # its authors' depth is the number of residual updates, without stem and head
    counts_paths: bool = False  # True: no power of the depth; `pathsum_transfer` takes the counts of units instead

    def exponent(self, family: Family) -> float | None:
        """The exponent of the depth for an optimizer family."""
        if family not in FAMILIES:
            known = "; ".join(f"{name!r}, {words}" for name, words in FAMILIES.items())
            raise DepthlrError(f"There is no optimizer family {family!r}: choose one of {known}.")
        return self.exponent_sgd if family == "sgd" else self.exponent_adam


RULES: dict[str, Rule] = {
    "copy": Rule(
        name="copy",
        source="common practice",
        assumes="The best rate does not depend on depth; the rate is kept as it is.",
        exponent_sgd=0.0,
        exponent_adam=0.0,
    ),
    "constant": Rule(
        name="constant",
        source="RealBench, docs/realbench.md",
        assumes=(
            "Training as people run it: the library's initialization, warm-up and decay, 1,000 steps or more, the rate "
            "tuned for the validation loss at the end; equal widths. One exponent for every model and optimizer."
        ),
        exponent_sgd=CONSTANT_EXPONENT,
        exponent_adam=CONSTANT_EXPONENT,
    ),
    "law": Rule(
        name="law",
        source="Hyperparameter Transfer Laws for Non-Recurrent Multi-Path Neural Networks",
        assumes=(
            "Fan-in initialisation, with residual branches scaled once by K^(-1/2) at initialisation and no multiplier "
            "in the forward pass; equal widths; effective depth counts residual updates. Derived for one SGD step; "
            f"for Adam the exponent is empirical. {_NO_MULTIPLIER}"
        ),
        exponent_sgd=LAW_EXPONENT,
        exponent_adam=LAW_EXPONENT,
    ),
    "jelassi": Rule(
        name="jelassi",
        source="Jelassi 2023",
        assumes=f"A ReLU MLP without residual connections, fan-in initialisation, SGD. {_NO_MULTIPLIER}",
        exponent_sgd=-1.5,
        exponent_adam=None,
    ),
    "depth-mup": Rule(
        name="depth-mup",
        source="Bordelon 2024, Yang 2023",
        assumes=(
            "A residual network whose branches are multiplied by 1/sqrt(L) in the forward pass at every depth, "
            f"under muP in width. {_NO_MULTIPLIER}"
        ),
        exponent_sgd=0.0,
        exponent_adam=-0.5,
        over_updates=True,
    ),
    "completep": Rule(
        name="completep",
        source="Dey 2025",
        assumes=(
            "A pre-norm Transformer whose branches are multiplied by 1/L in the forward pass at every depth, under muP "
            "in width, with Adam; its authors prescribe nothing for SGD. Never combine -3/2 with such a multiplier."
        ),
        exponent_sgd=None,
        exponent_adam=0.0,
        over_updates=True,
    ),
    "u-mup": Rule(
        name="u-mup",
        source="u-muP's public code",
        assumes=(
            "Unit-scaled layers whose branches are multiplied by about 1/sqrt(L) in the forward pass; "
            f"the code divides the rate by sqrt(L) for every optimizer. {_NO_MULTIPLIER}"
        ),
        exponent_sgd=-0.5,
        exponent_adam=-0.5,
        over_updates=True,
    ),
    "pathsum": Rule(
        name="pathsum",
        source="Chen 2024",
        assumes=(
            "SGD on a graph of weighted units with no scaling of branches; the rate follows the sum over paths of the "
            "path length cubed, which is -3/2 for a plain stack. It needs the counts of plain and residual units. "
            f"{_NO_MULTIPLIER}"
        ),
        exponent_sgd=None,
        exponent_adam=None,
        counts_paths=True,
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
        moved = tuned * (target / source) ** power
    except (OverflowError, ZeroDivisionError):
        moved = math.inf
    return finite_rate(moved, f"depth {source:g}", f"depth {target:g}")


def recommended_rule(
    *, schedule: str = "constant", steps: int | None = None, own_init: bool = False, measurable: bool = False
) -> str:
    """The name of the rule that the evidence recommends for a recipe.

    Args:
        schedule: How the rate changes during the run.
        steps: How many steps the run has. None if that is not known.
        own_init: The model is initialized by its library, and not by `init_`.
        measurable: There are models and batches to measure.
    """
    if schedule != "constant" or (steps or 0) >= LONG_RUN:
        return "constant"
    if measurable:
        return "measured"
    return "constant" if own_init else "law"


def rule_named(name: str) -> Rule:
    """The rule of that name. The error for an unknown name lists all names and the nearest one."""
    if name in RULES:
        return RULES[name]
    hint = did_you_mean(str(name).lower().replace("_", "-"), RULES)
    raise DepthlrError(f"There is no rule {name!r}{hint}: choose one of {', '.join(RULES)}.")


def carry(rule: Rule | str, rate: float, source_depth: float, target_depth: float, family: Family = "sgd") -> float:
    """The rate at the target depth by a rule of depth.

    Args:
        rule: The rule or its name.
        rate: The rate tuned at the source depth.
        source_depth: Effective depth of the source.
        target_depth: Effective depth of the target.
        family: The optimizer family.

    Raises:
        DepthlrError: The rule prescribes no power of the depth for this family.
    """
    chosen = rule if isinstance(rule, Rule) else rule_named(rule)
    exponent = chosen.exponent(family)
    if chosen.counts_paths:
        raise DepthlrError(
            f"The rule {chosen.name!r} is not a power of the depth: "
            "call pathsum_transfer with the counts of plain and residual units."
        )
    if exponent is None:
        able = [other.name for other in RULES.values() if other.exponent(family) is not None]
        raise DepthlrError(
            f"The rule {chosen.name!r} ({chosen.source}) prescribes nothing for optimizers of the {family!r} family: "
            f"choose one of {', '.join(able)}."
        )
    return transfer_by_power(rate, source_depth, target_depth, exponent)


# PathSum (Chen 2024): rate = c * (sum over input-output paths p of L_p^3)^(-1/2), where L_p counts the units on
# path p. A stack of K residual blocks has 2^K paths, so only logarithms are computed and no path is enumerated.


class UnitCounts(NamedTuple):
    """How many plain units (on every path) and residual units (each on half of the paths) a stack has."""

    plain: int
    residual: int


def log_pathsum(*, plain: int, residual: int) -> float:
    """log of sum_k C(K, k) (k + m)^3 for a stack of m plain and K residual units, one unit per residual branch.

    Args:
        plain: The number of plain units, m.
        residual: The number of residual units, K.
    """
    m = check.count("The number of plain units", plain, least=0)
    k = check.count("The number of residual units", residual, least=0)
    if m + k == 0:
        raise DepthlrError("PathSum needs at least one weighted unit: give a plain or a residual count above 0.")
    # 2^K E[(X + m)^3] with X ~ Binomial(K, 1/2): E X = K/2, E X^2 = K(K+1)/4, E X^3 = K^2(K+3)/8; exact in integers.
    eightfold = k * k * (k + 3) + 6 * m * k * (k + 1) + 12 * m * m * k + 8 * m**3
    return k * math.log(2.0) + math.log(eightfold / 8)


def pathsum_transfer(
    rate: float, *, source: UnitCounts | tuple[int, int], target: UnitCounts | tuple[int, int]
) -> float:
    """The rate for the target by PathSum.

    On residual stacks without branch scaling the rate falls exponentially (2^K paths), not as a power of the depth.

    Args:
        rate: The rate tuned on the source.
        source: The numbers of plain and residual units of the source.
        target: The same of the target.
    """
    tuned = check.positive("The rate", rate)
    here, there = UnitCounts(*source), UnitCounts(*target)
    change = log_pathsum(**there._asdict()) - log_pathsum(**here._asdict())
    try:
        moved = tuned * math.exp(-change / 2)  # Chen 2024: rate ~ (sum_p L_p^3)^(-1/2)
    except OverflowError:
        moved = math.inf
    return finite_rate(moved, here, there)


def finite_rate(rate: float, source: object, target: object) -> float:
    """Return a carried rate, or raise an error if it is outside the range of floats."""
    if not (math.isfinite(rate) and rate > 0):
        raise DepthlrError(
            f"The rate carried from {source} to {target} is {rate:g}, outside what a float can hold: "
            "choose a source nearer to the target."
        )
    return rate
