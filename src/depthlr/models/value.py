"""The values in a model's text: `8`, `0.1`, `true`, `none`, `gelu`, `"any text"`, `3,4`, `()`."""

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
LONGEST = 100  # digits; Python itself reads 4,300
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
BARE = re.compile(r"[\w./:@+-]+", re.ASCII)
QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""


def split_unquoted(text: str, separator: str) -> list[str]:
    """The pieces between separators, except where they stand inside quotes."""
    pieces = [""]
    for match in re.finditer(rf"{QUOTED}|.", text, re.DOTALL):
        if match[0] == separator:
            pieces.append("")
        else:
            pieces[-1] += match[0]
    return pieces


def parse_value(text: str) -> Value:
    """`3,4` is a tuple, `3,` a tuple of one and `()` the empty one; anything else is a single value."""
    if text == "()":
        return ()
    pieces = split_unquoted(text, ",")
    if len(pieces) == 1:
        return _parse_scalar(text)
    if pieces[-1] == "":
        pieces.pop()
    return tuple(_parse_scalar(piece) for piece in pieces)


def format_value(value: Value) -> str:
    """The text that parse_value reads back to this very value."""
    if not isinstance(value, tuple):
        return _format_scalar(value)
    if not value:
        return "()"
    return ",".join(map(_format_scalar, value)) + ("," if len(value) == 1 else "")


def _parse_scalar(text: str) -> Scalar:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if INTEGER.fullmatch(text):
        if len(text) > LONGEST:
            raise DepthlrError(
                f"The value {text[:20]}... has {len(text)} digits: write a number that a model can have."
            )
        return int(text)
    if FLOAT.fullmatch(text):
        return float(text)
    if re.fullmatch(QUOTED, text, re.DOTALL):
        return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
    if BARE.fullmatch(text):
        return text
    raise DepthlrError(f'The value {text!r} cannot be read: put text with unusual characters in quotes, x="a b".')


def _format_scalar(value: Scalar) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if BARE.fullmatch(value) and isinstance(_parse_scalar(value), str):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
