"""What a builder accepts: each check returns the value, or raises one sentence that says what to write instead."""

from collections.abc import Iterable

from depthlr.errors import DepthlrError, did_you_mean


def positive_integer(name: str, value: object) -> int:
    """A count of layers, blocks, channels and the like."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise DepthlrError(f"{name}={value!r} is not a count: give an integer of at least 1.")
    return value


def fraction(name: str, value: object) -> float:
    """A probability of dropping something; 1 would drop everything, always."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise DepthlrError(f"{name}={value!r} is not a probability: give a number from 0 up to, but not including, 1.")
    return float(value)


def choice(name: str, value: object, options: Iterable[str]) -> str:
    """One of a few words; the nearest one is suggested when the word is unknown."""
    known = list(options)
    if isinstance(value, str) and value in known:
        return value
    raise DepthlrError(f"{name}={value!r} is unknown{did_you_mean(str(value), known)}: choose from {', '.join(known)}.")


def divisor(name: str, value: int, of: str, total: int) -> int:
    """A part that must go into the whole without remainder, as heads into width."""
    if total % value:
        raise DepthlrError(f"{name}={value} does not divide {of}={total}: choose a {name} that does.")
    return value
