"""How far rates that were carried across depth missed the tuned ones, as a function of the distance."""

from __future__ import annotations

import math
from dataclasses import dataclass

COVERAGE = 0.8  # of tuned rates lie within a stated interval
FARTHEST = 5  # doublings of depth to which this is stretched; tasks reach 2.7
NORMAL_QUANTILE = 1.28  # of a normal variable `COVERAGE` lies within so many standard deviations


@dataclass(frozen=True)
class Missed:
    """So many decades at twice the depth, growing as a power of the doublings: what `COVERAGE` of transfers miss by.

    Those of TransferBench's dev and first tasks.
    """

    decades: float
    power: float

    def within(self, source_depth: float, target_depth: float) -> float:
        return float(self.decades * doublings(source_depth, target_depth) ** self.power)


def doublings(source_depth: float, target_depth: float) -> float:
    """Of depth, up or down."""
    return abs(math.log2(target_depth) - math.log2(source_depth))


LAW = Missed(0.26, 1.0)  # whose exponent is off
MEASURED = Missed(0.15, 0.5)
ONE_DRAW = Missed(0.26, 0.5)
