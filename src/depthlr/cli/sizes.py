"""The sizes in an option: whole numbers between commas."""

from __future__ import annotations

from depthlr.errors import DepthlrError


def parse_sizes(text: str) -> list[int]:
    """`3,4,6` as numbers; whatever else stands there is refused, not dropped."""
    try:
        return [int(piece) for piece in text.split(",")]
    except ValueError as error:
        raise DepthlrError(f"--sizes {text} is not understood: write whole numbers, such as 3,4,6.") from error
