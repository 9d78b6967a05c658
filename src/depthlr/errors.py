"""The one error that depthlr raises on purpose, and text about the errors of other code."""

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
    """Another library's error as part of a sentence: its kind, and its first line, or two after a colon.

    Args:
        error: The error.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    first = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return f"{type(error).__name__}: {first.rstrip('.')}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The text ` (did you mean 'x'?)`, or nothing if no known word is near.

    Args:
        word: What the user wrote.
        known: The words that would be right.
    """
    near = get_close_matches(word, list(known), n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""


@contextmanager
def one_sentence_errors(what: str, *, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn whatever another's code raises inside into one sentence.

    Args:
        what: What went wrong, the beginning of the sentence.
        but: Errors that the caller treats, and which pass as they are.
    """
    passing: tuple[type[Exception], ...] = (DepthlrError, *but)
    try:
        yield
    except passing:
        raise
    except Exception as error:
        raise DepthlrError(f"{what} ({kind_and_message(error)}).") from error


def exit_text(error: SystemExit) -> str:
    """What happened where the user's code called `sys.exit`.

    Args:
        error: What it raised.
    """
    return f"the model, its loss or its data called sys.exit({'' if error.code is None else repr(error.code)})"


@contextmanager
def report_exit() -> Iterator[None]:
    """Turn a `sys.exit` in the user's model, loss or data into an error; it would end the process without a message."""
    try:
        yield
    except SystemExit as error:
        raise DepthlrError(
            f"{exit_text(error)}: raise an error there instead; what a sweep had finished is kept."
        ) from error
