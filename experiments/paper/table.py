"""Small tables as CSV, written whole or not at all, and read back strictly."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from depthlr.data.replace_file import replace_file
from depthlr.errors import DepthlrError
from depthlr.study.table import cell_text


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Floats as Python's repr writes them, which reads back the same; an unknown value as nothing."""
    lines = [",".join(columns), *(",".join(cell_text(row[column]) for column in columns) for row in rows)]
    write_text(path, "\n".join(lines) + "\n")


def read_table(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows, each with at least these columns."""
    rows = csv.DictReader(io.StringIO(read_text(path)))
    try:
        lacking = [column for column in columns if column not in (rows.fieldnames or ())]
        found = list(rows)
    except csv.Error as error:
        raise damaged(path, f"is no table ({error})") from error
    if lacking:
        raise damaged(path, f"lacks the column {lacking[0]}")
    for line, row in enumerate(found, 2):
        if any(row[column] is None for column in columns):
            raise damaged(path, f"breaks off in line {line}")
        if None in row:  # where the reader puts what is beyond the last column
            raise damaged(path, f"has too many cells in line {line}")
    return found


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DepthlrError(f"{path} cannot be made ({error}): name a folder you can write to.") from error


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
        raise damaged(path, f"cannot be read ({error})") from error


def damaged(path: Path, how: str) -> DepthlrError:
    """What is said of a file that cannot be trusted."""
    return DepthlrError(f"{path} {how}: restore the file, or delete it and make it again.")
