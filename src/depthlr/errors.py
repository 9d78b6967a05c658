"""The one error depthlr raises on purpose: a sentence that says what was wrong and what to do; others told in it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class DepthlrError(ValueError):
    """Bad input; the message is one sentence for the user, and nothing was changed.

    The sentence may quote the input, so characters that would control a terminal are escaped.
    """

    def __init__(self, message: str) -> None:
        super().__init__("".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in message))


def kind_and_message(error: BaseException) -> str:
    """Someone else's error within a sentence of ours: its kind, and its first line, or two after a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    first = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return f"{type(error).__name__}: {first.rstrip('.')}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)`, or nothing when no known word is near."""
    near = get_close_matches(word, list(known), n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""


@contextmanager
def report_exit() -> Iterator[None]:
    """Report a model, a loss or data of the user's own that calls sys.exit, which would end all without a word."""
    try:
        yield
    except SystemExit as error:
        raise DepthlrError(
            f"the model, its loss or its data called sys.exit({'' if error.code is None else repr(error.code)}): raise "
            "an error there instead; what a sweep had finished is kept."
        ) from error
