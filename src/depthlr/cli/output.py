"""How results are written: a rate, a table, or JSON on stdout; everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table

from depthlr.cli.plain_console import PlainConsole
from depthlr.law.numbers import rate_text

__all__ = ["print_json", "print_note", "print_table", "rate_text"]


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """A table on stdout; numbers stand right."""
    table = Table(title=title, title_justify="left", header_style="bold")
    lines = [[str(cell) for cell in row] for row in rows]
    for index, column in enumerate(columns):
        numeric = all(_is_number(line[index]) for line in lines)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for line in lines:
        table.add_row(*line)
    # Piped output has no terminal to fit: give it room, so that no cell is cut.
    PlainConsole(width=None if sys.stdout.isatty() else 140).print(table)


def print_note(text: str) -> None:
    """A remark that is not the result."""
    PlainConsole(stderr=True).print(text, highlight=False, style="dim", soft_wrap=True)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in ("", "-")
    return True
