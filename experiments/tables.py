"""The files that experiments write: tables as CSV, facts as JSON. Files are replaced whole and read strictly."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from depthlr.data.files import replace_file
from depthlr.errors import DepthlrError
from depthlr.study.results import cell_text

Read = Callable[[str, Any], Any]
"""An entry's value from its name and its JSON, null where it is missing; raises a sentence where it cannot be one."""
Shape = Mapping[str, Read]


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table. Floats are written as Python's repr does, which reads back the same; None is an empty cell.

    Args:
        path: the CSV file.
        columns: the names of the columns that are written.
        rows: one mapping per row, with at least these columns.
    """
    lines = [",".join(columns)]
    for row in rows:
        lines.append(",".join(cell_text(row[column]) for column in columns))
    write_text(path, "\n".join(lines) + "\n")


def read_table(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a table, as text.

    Args:
        path: the CSV file.
        columns: the columns that it must have.
    """
    rows = csv.DictReader(io.StringIO(read_text(path)))
    try:
        missing = [column for column in columns if column not in (rows.fieldnames or ())]
        found = list(rows)
    except csv.Error as error:
        raise damaged(path, f"is no table ({error})") from error
    if missing:
        raise damaged(path, f"lacks the column {missing[0]}")
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


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=1) + "\n")


def keep_row(path: Path, row: Mapping[str, Any], *keys: str) -> None:
    """Write a row into a table that is kept as JSON, in place of the row that has the same keys.

    Args:
        path: The table; it is made if it does not exist.
        row: The row.
        keys: The names of the entries that tell rows apart.
    """
    rows = json.loads(read_text(path)) if path.exists() else []
    place = next((place for place, old in enumerate(rows) if all(old[key] == row[key] for key in keys)), len(rows))
    rows[place : place + 1] = [dict(row)]
    write_json(path, rows)


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
    """The error for a file that cannot be trusted.

    Args:
        path: the file.
        how: what is wrong with it, as a predicate such as "lacks the column rate".
    """
    return DepthlrError(f"{path} {how}: restore the file, or delete it and make it again.")


def shaped(text: str, shape: Shape) -> dict[str, Any]:
    """The entries that a shape names, from the object in a JSON text. Other entries are left out.

    Args:
        text: the JSON.
        shape: a reader for each entry.
    """
    try:
        found: dict[str, Any] = an_object(shape)("it", json.loads(text))
    except RecursionError as error:
        raise DepthlrError("it is nested too deeply") from error
    return found


def an_object(shape: Shape) -> Read:
    def read(name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise DepthlrError(f"{name} is no object")
        return {key: _entry(name, value, key, of) for key, of in shape.items()}

    return read


def or_else(default: Any, read: Read) -> Read:
    """A reader of an entry that older files do not have.

    Args:
        default: the value where the entry is missing.
        read: reads it otherwise.
    """

    def read_or_default(name: str, value: Any) -> Any:
        return default if value is None else read(name, value)

    return read_or_default


def truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise DepthlrError(f"{name} is {value!r}, not true or false")
    return value


def _entry(name: str, found: Mapping[str, Any], key: str, read: Read) -> Any:
    try:
        return read(key, found.get(key))
    except DepthlrError:
        if key in found:
            raise
        raise DepthlrError(f"{name} lacks {key}") from None
