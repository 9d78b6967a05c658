"""`depthlr plot STUDY.sqlite --out FILE.png`: the loss landscape or the scaling plot of a sweep."""

from __future__ import annotations

from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import Annotated

import typer

from depthlr.cli.fit import Over
from depthlr.cli.output import print_note
from depthlr.data.replace_file import replace_file
from depthlr.errors import DepthlrError
from depthlr.present.landscape import loss_landscape
from depthlr.present.scaling import scaling
from depthlr.present.style import SIZE, pyplot, style
from depthlr.study.results import Results, read_results

# Without a date, equal studies give equal files.
UNDATED = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


class Kind(StrEnum):
    """Which picture."""

    landscape = "landscape"  # loss against rate, a line a depth
    scaling = "scaling"  # tuned rate against depth


def plot(
    study: Annotated[str, typer.Argument(help="the .sqlite of a sweep, finished or not")],
    out: Annotated[Path, typer.Option(help="the picture to write: .png, .svg or .pdf")],
    kind: Annotated[
        Kind, typer.Option(help="loss against rate, or tuned rate against depth with the fit")
    ] = Kind.landscape,
    over: Annotated[Over, typer.Option(help="of scaling: over effective depth, or over what the study varies")] = (
        Over.depth
    ),
    rule: Annotated[list[str] | None, typer.Option(help="of scaling: also draw this rule's rates (repeat)")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="for a dark page")] = False,
    transparent: Annotated[bool, typer.Option("--transparent", help="without a background")] = False,
) -> None:
    """Draw a sweep as a picture."""
    form = out.suffix.lower().removeprefix(".")
    if form not in UNDATED:
        raise DepthlrError(f"--out {out}: name a picture that ends in .png, .svg or .pdf.")
    results = read_results(study)
    picture = _picture(results, kind, over, rule or [], form, dark=dark, transparent=transparent)
    try:
        with replace_file(out) as file:
            file.write(picture)
    except OSError as error:
        raise DepthlrError(f"{out} cannot be written ({error}): name a file in a folder you can write to.") from error
    for note in results.notes:
        print_note(f"note: {note}")
    print_note(f"wrote {out}")


def _picture(
    results: Results, kind: Kind, over: Over, rules: list[str], form: str, *, dark: bool, transparent: bool
) -> bytes:
    pyplot()  # the sentence where matplotlib is missing
    from matplotlib.figure import Figure

    content = BytesIO()
    with style(dark=dark, transparent=transparent):
        figure = Figure(figsize=SIZE, layout="constrained")  # of no window system
        if kind is Kind.landscape:
            loss_landscape(results, axes=figure.subplots())
        else:
            scaling(results, "depth" if over is Over.depth else "size", axes=figure.subplots(), rules=rules)
        figure.savefig(content, format=form, metadata=UNDATED[form])
    return content.getvalue()
