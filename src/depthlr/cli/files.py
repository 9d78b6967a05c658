"""Files that verbs write: reports, tables and pictures."""

from __future__ import annotations

import os
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

# Metadata by the ending of a picture. Without a date, equal studies give equal files.
PICTURE_METADATA = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def check_not_the_study(out: Path, study: str, what: str) -> None:
    """Refuse to overwrite the study, under this or another name.

    Args:
        out: The file to write.
        study: The study's file.
        what: What would be written, for the error.
    """
    if os.path.exists(out) and out.samefile(study):
        raise DepthlrError(f"{out} is the study itself: choose another name for its {what}.")


def write_file(out: Path, content: bytes) -> None:
    """Write a file completely or not at all, and print its name.

    Args:
        out: The file.
        content: All that it will hold.
    """
    with replace_file(out) as file:
        file.write(content)
    print_note(f"wrote {out}")


def check_picture(path: Path | None) -> Path | None:
    """The callback of an option that names a picture: refuse an ending that is no format of pictures."""
    if path is not None and path.suffix.lower() not in PICTURE_METADATA:
        raise DepthlrError(f"{path}: name a picture that ends in .png, .svg or .pdf.")
    return path


def write_picture(draw: Callable[[Axes], object], path: Path, *, dark: bool = False, transparent: bool = False) -> None:
    """Draw on new axes and write the picture.

    Args:
        draw: Draws on the axes that it is given.
        path: The file. Its ending is its format.
        dark: For a dark page.
        transparent: Without a background.
    """
    pyplot()  # raises an error that says how to install matplotlib
    from matplotlib.figure import Figure

    content, ending = BytesIO(), path.suffix.lower()
    with style(dark=dark, transparent=transparent):
        figure = Figure(figsize=SIZE, layout="constrained")  # needs no window system
        draw(figure.subplots())
        figure.savefig(content, format=ending[1:], metadata=PICTURE_METADATA[ending])
    write_file(path, content.getvalue())
