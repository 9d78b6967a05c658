"""A table of tuned rates: columns depth and rate, a row an optimum, separated by commas, semicolons or tabs."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path
from textwrap import shorten

from depthlr.errors import DepthlrError
from depthlr.law.domain import positive

SEPARATORS = ",;\t"
# What a run ends with, as the end of a word: val_loss and testAcc, but neither glossary nor accelerator.
_RESULT = re.compile(r"(loss(es)?|acc|accurac(y|ies)|err(or)?s?|metrics?|perplexity|ppl)(?![a-z])")
_RATES_OWN = re.compile(r"(rate|lr|std|standard)[ _.-]?err")  # an optimum may come with its error: rate_error, stderr


def read_optima(file: str) -> tuple[list[float], list[float]]:
    """Depths and rates of a table; - reads stdin."""
    name = "stdin" if file == "-" else file
    (_, header), *rows = _lines(name, _text(file, name))
    columns = [title.strip().lower() for title in header]
    _check_columns(name, columns)
    if not rows:
        raise DepthlrError(f"{name} has no row below its header line: write one an optimum.")
    for line, cells in rows:
        _check_cells(f"Line {line} of {name}", cells, columns)
    depths, rates = (
        [_number(cells, columns.index(column), f"The {column} in line {line} of {name}") for line, cells in rows]
        for column in ("depth", "rate")
    )
    return depths, rates


def _text(file: str, name: str) -> str:
    try:
        if file == "-" and sys.stdin is None:
            raise DepthlrError("The standard input is closed: name a CSV file with columns depth and rate.")
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DepthlrError(f"{name} cannot be read ({error}): name a CSV file with columns depth and rate.") from error


def _lines(name: str, text: str) -> list[tuple[int, list[str]]]:
    """The cells of each line that holds any, and the line's number; an empty file is an empty header."""
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    reader = csv.reader(lines, delimiter=max(SEPARATORS, key=first.count), skipinitialspace=True)
    try:
        return [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))] or [(1, [])]
    except csv.Error as error:
        raise DepthlrError(f"{name} is no table ({error}): name a CSV file with columns depth and rate.") from error


def _check_columns(name: str, columns: list[str]) -> None:
    """Refuse a header that lacks depth or rate or has one twice, and a table of runs."""
    found = shorten(", ".join(map(repr, columns)), 100) or "none"
    for wanted in ("depth", "rate"):
        if columns.count(wanted) != 1:
            raise DepthlrError(
                f"{name} needs a header line with the columns depth and rate, once each and separated by commas, "
                f"but its columns are: {found}."
            )
    if results := [column for column in columns if _is_result(column)]:
        raise DepthlrError(
            f"{name} has a column {results[0]}, so its rows are runs, not optima: fit the study's .sqlite itself, or "
            "keep each depth's best runs and leave that column out."
        )


def _check_cells(what: str, cells: list[str], columns: list[str]) -> None:
    """Refuse a row in which a cell has no column: which of them are the depth and the rate is a guess."""
    if any(map(str.strip, cells[len(columns) :])):
        raise DepthlrError(
            f"{what} has {len(cells)} cells below {len(columns)} columns: write one cell a column, and decimals with a "
            "point, such as 1.5."
        )


def _is_result(column: str) -> bool:
    return bool(_RESULT.search(column)) and not _RATES_OWN.match(column)


def _number(cells: list[str], place: int, what: str) -> float:
    cell = cells[place] if place < len(cells) else ""
    try:
        value = float(cell)
    except ValueError as error:
        raise DepthlrError(f"{what} must be a number such as 0.1 or 1e-3, not {cell!r}.") from error
    return positive(value, what)
