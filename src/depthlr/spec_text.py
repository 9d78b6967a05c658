"""The text form `name?key=value&key=value` that names models (`cnn?layers=8`) and data sets (`images?size=64`).

A value with special characters stands in quotes: `x="a&b"`. Model arguments are typed by `parse_value`: `8`, `0.1`,
`true`, `none`, `gelu`, `"any text"`, `3,4` or `[3,4]`, `()`. Options of data sets stay text.
"""

from __future__ import annotations

import re

from depthlr.errors import DepthlrError

Scalar = int | float | bool | str | None
Value = Scalar | tuple[Scalar, ...]

WORDS: dict[str, bool | float | None] = {
    "true": True,
    "false": False,
    "none": None,
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
}
MAX_DIGITS = 100  # of a whole number; a longer one is read as a float
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
BARE = re.compile(r"[\w./:@+-]+", re.ASCII)
QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)


def split_spec(text: str, example: str) -> tuple[str, dict[str, str]]:
    """Split `name?key=value&key=value` into the name and the text of every value.

    Args:
        text: what the user wrote.
        example: a valid `key=value`, shown in error messages.

    Raises:
        DepthlrError: an argument is not `key=value`, or a key occurs twice.
    """
    name, _, query = text.partition("?")
    arguments: dict[str, str] = {}
    for piece in split_unquoted(query, "&") if query else []:
        key, equals, value = piece.partition("=")
        if not equals or not key.isidentifier() or not value:
            raise DepthlrError(f"The argument {piece!r} of {name} is not of the form key=value, such as {example}.")
        if key in arguments:
            raise DepthlrError(f"The argument {key!r} of {name} is given twice: remove one.")
        arguments[key] = value
    return name, arguments


def split_unquoted(text: str, separator: str) -> list[str]:
    """Split the text at each separator that does not stand inside quotes.

    Args:
        text: the text to split.
        separator: one character.
    """
    pieces = [""]
    for match in re.finditer(rf"{QUOTED.pattern}|.", text, re.DOTALL):
        if match[0] == separator:
            pieces.append("")
        else:
            pieces[-1] += match[0]
    return pieces


def unquote(text: str) -> str:
    """Remove the quotes around a text and the backslashes inside them; text without quotes is returned as it is.

    Args:
        text: the text of one value.
    """
    if not QUOTED.fullmatch(text):
        return text
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


def parse_value(text: str) -> Value:
    """Read a value: `3,4`, `[3,4]` and `(3,4)` are a tuple, `3,` a tuple of one, `()` the empty one, all else a scalar.

    Args:
        text: the text of one value.

    Raises:
        DepthlrError: the text is neither a number, a word, nor in quotes.
    """
    in_brackets = text[:1] + text[-1:] in ("()", "[]")
    pieces = split_unquoted(text[1:-1] if in_brackets else text, ",")
    if len(pieces) == 1 and not in_brackets:
        return _parse_scalar(text)
    if pieces[-1] == "":
        pieces.pop()
    return tuple(_parse_scalar(piece) for piece in pieces)


def format_value(value: Value) -> str:
    """Write a value as text that `parse_value` reads back to the same value.

    Args:
        value: a scalar or a tuple of scalars.
    """
    if not isinstance(value, tuple):
        return _format_scalar(value)
    if not value:
        return "()"
    text = ",".join(_format_scalar(item) for item in value)
    return f"{text}," if len(value) == 1 else text


def _parse_scalar(text: str) -> Scalar:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if INTEGER.fullmatch(text) and len(text) <= MAX_DIGITS:
        return int(text)
    if FLOAT.fullmatch(text):
        return float(text)
    if QUOTED.fullmatch(text):
        return unquote(text)
    if BARE.fullmatch(text):
        return text
    raise DepthlrError(
        f'The value {text!r} cannot be read: put special characters in quotes, x="a b", and write lists as 3,4.'
    )


def _format_scalar(value: Scalar) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if BARE.fullmatch(value) and isinstance(_parse_scalar(value), str):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
