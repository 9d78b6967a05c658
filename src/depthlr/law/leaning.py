"""Leaning on the law as far as a measured change of the rate is uncertain."""

from __future__ import annotations

import math

EXPONENT_SPREAD = 0.65  # root mean square of tuned exponents less the law's, over 24 tasks of TransferBench
LEAST_SPREAD = 0.1  # decades: models close in depth may differ in what the law does not know


def law_share(standard_error: float, source_depth: float, target_depth: float) -> float:
    """How much the law counts beside a change measured to so many decades: by inverse variances, between 0 and 1.

    The law's own error grows with the decades of depth between the two.
    """
    spread = math.hypot(LEAST_SPREAD, EXPONENT_SPREAD * math.log10(target_depth / source_depth))
    return standard_error**2 / (standard_error**2 + spread**2)
