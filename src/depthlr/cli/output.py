"""What is printed: numbers, tables and JSON to stdout, notes to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table


class PlainConsole(Console):
    """A console that prints text as it is: a model's name may contain [brackets] and :colons:."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        raise typer.Exit(1) from None  # rich would raise SystemExit, which the user's own code may raise too


def print_json(value: Any) -> None:
    """Print a value as JSON on stdout."""
    print(json.dumps(value, indent=2, allow_nan=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table on stdout, with numbers aligned to the right.

    Args:
        columns: The titles of the columns.
        rows: The cells, row by row.
        title: The line above the table.
    """
    table = Table(header_style="bold")
    lines = [list(map(str, row)) for row in rows]
    for index, column in enumerate(columns):
        numeric = all(_is_number(line[index]) for line in lines)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for line in lines:
        table.add_row(*line)
    # Piped output has no terminal width: make it wide, so that no cell is cut.
    console = PlainConsole(width=None if sys.stdout.isatty() else 140)
    if title is not None:  # a title of the table itself would be folded to the table's width
        console.print(title, style="italic", highlight=False, soft_wrap=True)
    console.print(table)


def print_note(text: str) -> None:
    """Print a remark, which is not the result, on stderr."""
    PlainConsole(stderr=True).print(text, highlight=False, style="dim", soft_wrap=True)


def count_text(count: int, thing: str) -> str:
    """`1 seed`, `3 seeds`.

    Args:
        count: How many there are.
        thing: What one of them is called.
    """
    return f"{count} {thing}{'' if count == 1 else 's'}"


def print_notes(notes: Iterable[str]) -> None:
    """Print notes about the result, one on a line."""
    for note in notes:
        print_note(f"note: {note}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in ("", "-")
    return True
