"""A picture that a verb draws: its form by the name of the file, written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from depthlr.cli.write_file import write_file
from depthlr.errors import DepthlrError
from depthlr.present.style import SIZE, pyplot, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Without a date, equal studies give equal files.
UNDATED = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def picture_form(path: Path, option: str) -> str:
    """The form that a file's name asks for; another than a picture's is refused."""
    form = path.suffix.lower().removeprefix(".")
    if form not in UNDATED:
        raise DepthlrError(f"{option} {path}: name a picture that ends in .png, .svg or .pdf.")
    return form


def write_picture(
    draw: Callable[[Axes], object], path: Path, form: str, *, dark: bool = False, transparent: bool = False
) -> None:
    """Draw on new axes, and put the file in its place."""
    pyplot()  # the sentence where matplotlib is missing
    from matplotlib.figure import Figure

    content = BytesIO()
    with style(dark=dark, transparent=transparent):
        figure = Figure(figsize=SIZE, layout="constrained")  # of no window system
        draw(figure.subplots())
        figure.savefig(content, format=form, metadata=UNDATED[form])
    write_file(path, content.getvalue())
