"""The one error depthlr raises on purpose: a sentence that says what was wrong and what to do; others told in it."""

from collections.abc import Iterable
from difflib import get_close_matches


class DepthlrError(ValueError):
    """Bad input; the message is one sentence for the user, and nothing was changed."""


def kind_and_message(error: BaseException) -> str:
    """Someone else's error within a sentence of ours: its kind, and its first line, or two after a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    first = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return f"{type(error).__name__}: {first.rstrip('.')}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)`, or nothing when no known word is near."""
    near = get_close_matches(word, list(known), n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""
