"""The files that experiments write: tables as CSV, facts as JSON. Written whole, read back strictly."""

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


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=1) + "\n")


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


def shaped(text: str, shape: Shape) -> dict[str, Any]:
    """The entries that the shape names, of the object in a JSON text; whatever else it holds is left out."""
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
    """For an entry that may be missing, as in files from before it was kept."""
    return lambda name, value: default if value is None else read(name, value)


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
