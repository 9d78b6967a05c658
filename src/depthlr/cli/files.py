"""Files that verbs write: reports, tables and pictures."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from depthlr.cli.output import print_note
from depthlr.data.files import replace_file
from depthlr.errors import DepthlrError
from depthlr.present.style import SIZE, pyplot, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Metadata by picture format. Without a date, equal studies give equal files.
PICTURE_METADATA = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


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
    pyplot()  # raises an error that says how to install matplotlib
    from matplotlib.figure import Figure

    content = BytesIO()
    with style(dark=dark, transparent=transparent):
        figure = Figure(figsize=SIZE, layout="constrained")  # needs no window system
        draw(figure.subplots())
        figure.savefig(content, format=form, metadata=PICTURE_METADATA[form])
    write_file(path, content.getvalue())
