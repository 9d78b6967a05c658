"""Named rules for carrying a rate across depth, each with what it assumes said in words."""

import difflib
from dataclasses import dataclass
from typing import Literal

from depthlr.errors import DepthlrError
from depthlr.law.power import LAW_EXPONENT, transfer

Family = Literal["sgd", "adam"]

# What decides the exponent is how the step answers a larger gradient, so any optimizer belongs to one of these two.
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


@dataclass(frozen=True)
class Rule:
    """How a rate is carried: the exponent of the depth for each family, None where its authors prescribe nothing."""

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


def rule_named(name: str) -> Rule:
    """The rule of that name; the error lists the names there are, and the nearest one."""
    if name in RULES:
        return RULES[name]
    near = difflib.get_close_matches(str(name).lower().replace("_", "-"), RULES, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise DepthlrError(f"There is no rule {name!r}{hint}: choose one of {', '.join(RULES)}.")


def carry(rule: Rule | str, rate: float, source_depth: float, target_depth: float, family: Family = "sgd") -> float:
    """The rate at the target depth by a rule; an error where the rule prescribes no power of the depth."""
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
    return transfer(rate, source_depth, target_depth, exponent)
