"""Results as text, one row a cell, written so that equal studies give equal bytes."""

from __future__ import annotations

import json
import math
from typing import Any

from depthlr.study.results import COLUMNS, TIMES, Results

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a text begins that a spreadsheet would compute


def to_csv(results: Results, *, times: bool = False) -> str:
    """Floats as Python's repr writes them, which reads back the same; infinity as inf, an unknown depth as nothing."""
    columns = COLUMNS + TIMES if times else COLUMNS
    lines = [",".join(_field(row[column]) for column in columns) for row in results.rows(times=times)]
    return "\n".join([",".join(columns), *lines]) + "\n"


def to_json(results: Results, *, times: bool = False) -> str:
    """A list of objects; JSON has no infinity, so the loss of a diverged cell is null."""
    table = [
        {key: None if isinstance(v, float) and math.isinf(v) else v for key, v in row.items()}
        for row in results.rows(times=times)
    ]
    return json.dumps(table, indent=1, allow_nan=False) + "\n"


def cell_text(value: Any) -> str:
    """Nothing for an unknown value; floats as Python's repr writes them, which reads back the same."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _field(value: Any) -> str:
    """Text is quoted where a comma, a quote or a line break is in it, and no spreadsheet takes it for a formula."""
    if not isinstance(value, str):
        return cell_text(value)
    text = f"'{value}" if value.startswith(FORMULA) else value
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text
