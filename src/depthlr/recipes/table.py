"""Small tables as CSV, written whole or not at all, and read back strictly."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from depthlr.data.replace_file import replace_file
from depthlr.errors import DepthlrError


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Floats as Python's repr writes them, which reads back the same; an unknown value as nothing."""
    lines = [",".join(columns), *(",".join(_text(row[column]) for column in columns) for row in rows)]
    write_text(path, "\n".join(lines) + "\n")


def read_table(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows, each with at least these columns."""
    rows = csv.DictReader(io.StringIO(read_text(path)))
    lacking = [column for column in columns if column not in (rows.fieldnames or ())]
    if lacking:
        raise DepthlrError(f"{path} lacks the column {lacking[0]}: restore the file, or make it again.")
    found = list(rows)
    for line, row in enumerate(found, 2):
        if any(row[column] is None for column in columns):
            raise DepthlrError(f"{path} breaks off in line {line}: restore the file, or make it again.")
    return found


def write_text(path: Path, text: str) -> None:
    try:
        with replace_file(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise DepthlrError(f"{path} cannot be written ({error}): name a folder you can write to.") from error


def read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DepthlrError(f"{path} cannot be read ({error}): restore the file, or make it again.") from error


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
