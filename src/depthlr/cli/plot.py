"""`depthlr plot STUDY.sqlite --out FILE.png`: the loss landscape or the scaling plot of a sweep."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from depthlr.cli.files import check_not_the_study, picture_form, write_picture
from depthlr.cli.fit import OverOption
from depthlr.cli.options import Metric, StudyFile
from depthlr.cli.output import print_note, print_notes
from depthlr.present.landscape import loss_landscape
from depthlr.present.scaling import scaling
from depthlr.present.text import loss_label
from depthlr.study.results import read_results

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Kind(StrEnum):
    """Which picture."""

    landscape = "landscape"  # loss against rate, a line a depth
    scaling = "scaling"  # tuned rate against depth


def plot_command(
    study: StudyFile,
    out: Annotated[Path, typer.Option(help="the picture to write: .png, .svg or .pdf")],
    kind: Annotated[Kind, typer.Option(help="loss against rate, or tuned rate against depth")] = Kind.landscape,
    over: Annotated[
        OverOption, typer.Option(help="of scaling: over effective depth, or over what the study varies")
    ] = OverOption.depth,
    rule: Annotated[list[str] | None, typer.Option(help="of scaling: also draw this rule's rates (repeat)")] = None,
    metric: Metric = None,
    dark: Annotated[bool, typer.Option("--dark", help="for a dark page")] = False,
    transparent: Annotated[bool, typer.Option("--transparent", help="without a background")] = False,
) -> None:
    """Draw a sweep as a picture."""
    form = picture_form(out, "--out")
    results = read_results(study, metric)
    check_not_the_study(out, study, "picture")

    def draw(axes: Axes) -> object:
        if kind is Kind.landscape:
            return loss_landscape(results, axes=axes)
        return scaling(results, over.value, axes=axes, rules=rule or [])

    write_picture(draw, out, form, dark=dark, transparent=transparent)
    print_note(f"rates are judged by the {loss_label(results)}")
    print_notes(results.notes)
