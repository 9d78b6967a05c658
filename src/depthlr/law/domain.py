"""What the laws accept: finite numbers, numbers above zero, whole counts; anything else is one clear error."""

import math
import operator
from typing import SupportsFloat, SupportsIndex

from depthlr.errors import DepthlrError

Number = SupportsFloat | SupportsIndex


def finite(value: Number, what: str, *, least: float = -math.inf) -> float:
    """The value as a float; an error that names it when it is not finite or lies below `least`."""
    number = _as_float(value)
    if not (math.isfinite(number) and number >= least):
        bound = "" if least == -math.inf else f" of at least {least:g}"
        raise DepthlrError(f"{what} must be a finite number{bound}, not {value!r}.")
    return number


def positive(value: Number, what: str) -> float:
    """The value as a float; an error that names it when it has no finite logarithm."""
    number = _as_float(value)
    if not (math.isfinite(number) and number > 0):
        raise DepthlrError(f"{what} must be a finite number above 0, not {value!r}.")
    return number


MOST_SEED = 2**62  # generators take less than 2 ** 64, and further seeds are counted from one


def whole(value: SupportsIndex, what: str, *, least: int = 0, most: int | None = None) -> int:
    """The value as an int; an error that names it when it is not whole, below `least` or above `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise DepthlrError(f"{what} must be a whole number of at least {least}, not {value!r}.")
    if most is not None and number > most:
        raise DepthlrError(f"{what} must be a whole number of at most {most}, not {value!r}.")
    return number


def carried(rate: float, source: object, target: object) -> float:
    """A rate on its arrival; an error when it left the range of floats on the way."""
    if not (math.isfinite(rate) and rate > 0):
        raise DepthlrError(
            f"The rate carried from {source} to {target} is {rate:g}, outside what a float can hold: "
            "choose a source nearer to the target."
        )
    return rate


def _as_float(value: Number) -> float:
    """The value as a float, NaN where it has none; text is not a number here."""
    try:
        return math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: a torch tensor of many values
        return math.nan
