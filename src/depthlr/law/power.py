"""The depth law: the best rate falls as a power of the effective depth."""

import math

from depthlr.law.domain import carried, finite, positive

LAW_EXPONENT = -1.5  # Prop. 1 (CNN) and its residual and Transformer twins: eta* = kappa L^(-3/2)


def transfer(rate: float, source_depth: float, target_depth: float, exponent: float = LAW_EXPONENT) -> float:
    """The rate at the target depth, from the rate tuned at the source depth: rate * (target / source) ** exponent."""
    tuned = positive(rate, "The rate")
    source = positive(source_depth, "The source depth")
    target = positive(target_depth, "The target depth")
    power = finite(exponent, "The exponent")
    try:
        moved = tuned * (target / source) ** power
    except (OverflowError, ZeroDivisionError):
        moved = math.inf
    return carried(moved, f"depth {source:g}", f"depth {target:g}")
