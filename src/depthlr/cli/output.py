"""Where results go: numbers, tables and JSON to stdout, notes to stderr, files and pictures to disk."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table

from depthlr.errors import DepthlrError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Metadata by picture format. Without a date, equal studies give equal files.
PICTURE_METADATA = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


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
    table = Table(title=title, title_justify="left", header_style="bold")
    lines = [list(map(str, row)) for row in rows]
    for index, column in enumerate(columns):
        numeric = all(_is_number(line[index]) for line in lines)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for line in lines:
        table.add_row(*line)
    # Piped output has no terminal width: make it wide, so that no cell is cut.
    PlainConsole(width=None if sys.stdout.isatty() else 140).print(table)


def print_note(text: str) -> None:
    """Print a remark, which is not the result, on stderr."""
    PlainConsole(stderr=True).print(text, highlight=False, style="dim", soft_wrap=True)


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


def check_not_the_study(out: Path, study: str, what: str) -> None:
    """Refuse to overwrite the study, under this or another name.

    Args:
        out: The file to write.
        study: The study's file.
        what: What would be written, for the error.
    """
    try:
        same = Path(study).samefile(out)
    except OSError:  # the file does not exist, or its name is invalid: then writing it raises the error
        same = False
    if same:
        raise DepthlrError(f"{out} is the study itself: choose another name for its {what}.")


def write_file(out: Path, content: bytes) -> None:
    """Write a file completely or not at all, and print its name.

    Args:
        out: The file.
        content: All that it will hold.
    """
    from depthlr.data.files import replace_file  # here, because it imports torch

    try:
        with replace_file(out) as file:
            file.write(content)
    except OSError as error:
        raise DepthlrError(f"{out} cannot be written ({error}): name a file in a folder you can write to.") from error
    print_note(f"wrote {out}")


def picture_form(path: Path, option: str) -> str:
    """The format that a file's name asks for: png, svg or pdf.

    Args:
        path: The file.
        option: The option that named it, for the error.
    """
    form = path.suffix.lower().removeprefix(".")
    if form not in PICTURE_METADATA:
        raise DepthlrError(f"{option} {path}: name a picture that ends in .png, .svg or .pdf.")
    return form


def write_picture(
    draw: Callable[[Axes], object], path: Path, form: str, *, dark: bool = False, transparent: bool = False
) -> None:
    """Draw on new axes and write the picture.

    Args:
        draw: Draws on the axes that it is given.
        path: The file.
        form: Its format, as `picture_form` returns it.
        dark: For a dark page.
        transparent: Without a background.
    """
    from depthlr.present.style import SIZE, pyplot, style  # here, because it imports torch

    pyplot()  # raises an error that says how to install matplotlib
    from matplotlib.figure import Figure

    content = BytesIO()
    with style(dark=dark, transparent=transparent):
        figure = Figure(figsize=SIZE, layout="constrained")  # needs no window system
        draw(figure.subplots())
        figure.savefig(content, format=form, metadata=PICTURE_METADATA[form])
    write_file(path, content.getvalue())
