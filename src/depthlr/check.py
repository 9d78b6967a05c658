"""Checks of values. Each takes a value's name, for the message, and the value. It returns the value or raises.

Numbers come back as `int` or `float`. Bounds are arguments of their own: `least`, `most` and `below`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from depthlr.errors import DepthlrError, did_you_mean

MOST_RATE = 1e15  # also of a weight decay: torch refuses a product of both that is beyond single precision
LONGEST_SHOWN = 80  # characters of a value in a message
MOST_SEED = 2**62  # generators take less than 2 ** 64, and further seeds are counted from one


def text(name: str, value: object) -> str:
    """One line of text that TOML can hold."""
    if not isinstance(value, str) or not value.strip() or any(_is_control(c) for c in value):
        raise DepthlrError(f'{name} is {_shown(value)}: write one line of text in quotes, such as {name} = "name".')
    return value


def one_of(name: str, value: object, known: Iterable[str]) -> str:
    """One of the known words."""
    words = list(known)
    if not isinstance(value, str) or value not in words:
        near = did_you_mean(value, words) if isinstance(value, str) else ""
        raise DepthlrError(f"{name} is {_shown(value)}{near}: choose from {', '.join(words)}.")
    return value


def count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """A whole number from `least` to `most`."""
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise DepthlrError(f"{name} is {_shown(value)}: give a whole number of at least {least}.")
    if most is not None and number > most:
        raise DepthlrError(f"{name} is {value}: give a whole number of at most {most:,}.")
    return number


def seed(name: str, value: Any) -> int:
    """A whole number from which torch's generators can be seeded."""
    return count(name, value, least=0, most=MOST_SEED)


def counts(name: str, value: object, *, least: int, most: int | None = None) -> tuple[int, ...]:
    """At least one whole number, and no number twice."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or not value:
        raise DepthlrError(f"{name} is {_shown(value)}: give a list of whole numbers, such as [3, 4, 6].")
    numbers = tuple(count(f"an entry of {name}", item, least=least, most=most) for item in value)
    for item in numbers:
        if numbers.count(item) > 1:
            raise DepthlrError(f"{name} has {item} twice: keep one.")
    return numbers


def finite(name: str, value: Any, *, least: float = -math.inf) -> float:
    """A finite number of at least `least`."""
    number = _float(value)
    if not (math.isfinite(number) and number >= least):
        bound = "" if least == -math.inf else f" of at least {least:g}"
        raise DepthlrError(f"{name} is {_shown(value)}: give a finite number{bound}.")
    return number


def positive(name: str, value: Any) -> float:
    """A finite number above 0."""
    number = _float(value)
    if not 0 < number < math.inf:
        raise DepthlrError(f"{name} is {_shown(value)}: give a finite number above 0.")
    return number


def number(name: str, value: Any, *, below: float = MOST_RATE) -> float:
    """A number from 0 up to, but not including, `below`."""
    found = _float(value)
    if not 0 <= found < below:
        raise DepthlrError(f"{name} is {_shown(value)}: give a number of at least 0 and below {below:g}.")
    return found


def share(name: str, value: Any) -> float:
    """A number above 0 and below 1."""
    found = _float(value)
    if not 0 < found < 1:
        raise DepthlrError(f"{name} is {_shown(value)}: give a share, a number above 0 and below 1.")
    return found


def rate(name: str, value: Any) -> float:
    """A learning rate that torch's optimizers take."""
    found = _float(value)
    if not 0 < found <= MOST_RATE:
        bound = f"above 0 and at most {MOST_RATE:g}"
        raise DepthlrError(f"{name} is {_shown(value)}: give a rate, a finite number {bound}.")
    return found


def _shown(value: object) -> str:
    """A value in a message. The text of a recipe or a tensor can be pages long, so its type stands for it."""
    shown = repr(value)
    plain = isinstance(value, int | float | str)
    return shown if plain or len(shown) <= LONGEST_SHOWN else f"a {type(value).__name__}"


def _float(value: Any) -> float:
    """The value as a float, NaN if it is no number. Text and booleans are no numbers here."""
    try:
        return math.nan if isinstance(value, str | bytes | bool) else float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: a torch tensor of many values
        return math.nan


def _is_control(character: str) -> bool:
    """Is this a character that TOML cannot hold: a control, or half of a surrogate pair?"""
    return character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff"
