"""How a rate changes between two measured models: by their persistent energies, and the law where these scatter."""

from __future__ import annotations

import math
from dataclasses import dataclass

from depthlr.energy.persistent import DrawnRate
from depthlr.law.leaning import law_share
from depthlr.law.power import LAW_EXPONENT


@dataclass(frozen=True)
class MeasuredChange:
    """log10 of the factor on the rate, and what it rests on."""

    decades: float
    standard_error: float | None  # of the measurement by itself; None where it rests on one draw
    law_share: float  # how much the law counts in it, between 0 and 1

    @property
    def factor(self) -> float:
        return float(10**self.decades)


def measured_change(
    here: DrawnRate, there: DrawnRate, source_depth: float, target_depth: float, *, one_width: bool
) -> MeasuredChange:
    """The mean of the measured change and the law's, weighed by how well each is known.

    The law knows depth alone, so between models of other widths the measurement stands by itself; and so it does where
    it rests on one draw, whose scatter was not seen.
    """
    measured = there.decades - here.decades  # energy is quadratic in the rate: rate'^2 P'(1) = rate^2 P(1)
    if here.standard_error is None or there.standard_error is None:
        return MeasuredChange(measured, None, 0.0)
    unsure = math.hypot(here.standard_error, there.standard_error)
    share = law_share(unsure, source_depth, target_depth) if one_width else 0.0
    law = LAW_EXPONENT * math.log10(target_depth / source_depth)  # Prop. 1: eta* = kappa L^(-3/2)
    return MeasuredChange((1 - share) * measured + share * law, unsure, share)
