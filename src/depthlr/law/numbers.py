"""How numbers are written for people: rates, and a fit's slope with its interval."""

from __future__ import annotations

from depthlr.law.fit import Fit

MINUS = "\N{MINUS SIGN}"


def rate_text(rate: float) -> str:
    """A rate in three digits, as people write it: 6.23e-3."""
    mantissa, exponent = f"{rate:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def number_text(value: float, digits: int = 3) -> str:
    """As 0.02 or 139, and as 1e-4 where the zeros would have to be counted."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def signed(value: float) -> str:
    """Two decimals with a real minus sign, and none before a zero."""
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", MINUS)


def slope_text(fit: Fit) -> str:
    """`slope −1.30 (95 % −1.50 to −1.10)`."""
    if not fit.bounded:
        return f"slope {signed(fit.slope)} (no interval)"
    low, high = fit.interval
    return f"slope {signed(fit.slope)} ({fit.level * 100:g} % {signed(low)} to {signed(high)})"
