"""A slope against a stated one, the law's -3/2 above all: one rule, whether it was tuned or measured."""

from __future__ import annotations

from enum import StrEnum

from depthlr.law.fit import Fit
from depthlr.law.numbers import signed
from depthlr.law.power import LAW_EXPONENT

WIDE = 1.0  # an interval longer than this cannot tell the law from half a power more or less


class Judgement(StrEnum):
    """How the rate falls with depth, beside what was stated."""

    holds = "holds"
    faster = "faster"
    slower = "slower"
    undecided = "undecided"


def judged(fit: Fit, stated: float = LAW_EXPONENT) -> Judgement:
    """By the slope's interval: it lies on one side, or holds the stated slope and little else."""
    low, high = fit.interval
    if low <= stated <= high:
        return Judgement.holds if high - low <= WIDE else Judgement.undecided
    return Judgement.faster if high < stated else Judgement.slower


def verdict(fit: Fit) -> str:
    """One sentence: the slope does not contradict the law, it is another one, or nothing is decided."""
    span = " to ".join(map(signed, fit.interval))
    match judged(fit):
        case Judgement.holds:
            return f"Does not contradict the law: {span} contains −3/2."
        case Judgement.faster:
            return f"Falls faster than the law’s −3/2: use {signed(fit.slope)} ({span})."
        case Judgement.slower:
            return f"Falls more slowly than the law’s −3/2: use {signed(fit.slope)} ({span})."
        case Judgement.undecided if fit.bounded:
            return f"Undecided: {span} contains −3/2 and much else. Add seeds or depths."
    return "Undecided: the slope has no interval. Add seeds or a third depth."
