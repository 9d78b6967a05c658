"""`depthlr ask STUDY` and `depthlr tell STUDY.sqlite`: cells that another scheduler trains, as JSON lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from depthlr.cli.options import is_study_file
from depthlr.cli.output import print_note
from depthlr.study.ask_tell import ask, create_study, tell
from depthlr.study.description import read_study


def ask_command(
    study: Annotated[str, typer.Argument(help="the .sqlite of a study, or its TOML file, which makes the .sqlite")],
    count: Annotated[
        int | None, typer.Option("-n", "--count", min=1, help="so many at most", show_default="all")
    ] = None,
) -> None:
    """Print the cells to train next, as JSON lines; repeat it until it prints none."""
    path = Path(study)
    if not is_study_file(study):
        path = path.with_suffix(".sqlite")
        create_study(read_study(study), path)
    cells = ask(path, count)
    for cell in cells:
        print(json.dumps(cell))
    if not cells:
        print_note(f"{path} is finished: see depthlr report, plot, fit and export")


def tell_command(study: Annotated[str, typer.Argument(help="the .sqlite of a study, as depthlr ask made it")]) -> None:
    """Take the losses of trained cells, as JSON lines on stdin; a line told twice is kept once."""
    new = tell(study, sys.stdin)
    print_note(f"{new} new cells are kept in {study}")
