"""What a study's entries may be; each check returns the value, or raises one sentence that names the entry."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from depthlr.errors import DepthlrError, did_you_mean

MOST = 1e15  # of a rate or a weight decay: torch refuses a product of both that is beyond single precision


def text(entry: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or any(_is_control(c) for c in value):
        raise DepthlrError(f'{entry} is {value!r}: write one line of text in quotes, such as {entry} = "name".')
    return value


def one_of(entry: str, value: object, known: Iterable[str]) -> str:
    words = list(known)
    if not isinstance(value, str) or value not in words:
        near = did_you_mean(value, words) if isinstance(value, str) else ""
        raise DepthlrError(f"{entry} is {value!r}{near}: choose from {', '.join(words)}.")
    return value


def count(entry: str, value: object, *, least: int = 1, most: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DepthlrError(f"{entry} is {value!r}: give a whole number of at least {least}.")
    if most is not None and value > most:
        raise DepthlrError(f"{entry} is {value}: give a whole number of at most {most:,}.")
    return value


def number(entry: str, value: object, *, below: float = MOST) -> float:
    """A number from 0 up to, but not including, `below`."""
    found = _float(value)
    if not 0 <= found < below:
        raise DepthlrError(f"{entry} is {value!r}: give a number of at least 0 and below {below:g}.")
    return found


def share(entry: str, value: object) -> float:
    """A number above 0 and below 1."""
    found = _float(value)
    if not 0 < found < 1:
        raise DepthlrError(f"{entry} is {value!r}: give a share, a number above 0 and below 1.")
    return found


def rate(entry: str, value: object) -> float:
    found = _float(value)
    if not 0 < found <= MOST:
        raise DepthlrError(f"{entry} is {value!r}: give a rate, a finite number above 0 and at most {MOST:g}.")
    return found


def counts(entry: str, value: object, *, least: int, most: int | None = None) -> tuple[int, ...]:
    """Whole numbers, no two alike, at least one."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or not value:
        raise DepthlrError(f"{entry} is {value!r}: give a list of whole numbers, such as [3, 4, 6].")
    numbers = tuple(count(f"an entry of {entry}", item, least=least, most=most) for item in value)
    seen: set[int] = set()
    for item in numbers:
        if item in seen:
            raise DepthlrError(f"{entry} has {item} twice: keep one.")
        seen.add(item)
    return numbers


def _float(value: object) -> float:
    """A number as a float, NaN where it is none: True is not 1 here, and an integer may be too large."""
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan


def _is_control(character: str) -> bool:
    """Characters that TOML cannot hold: controls, and halves of a surrogate pair."""
    return character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff"
