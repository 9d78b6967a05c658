"""`depthlr tell STUDY.sqlite`: take the losses of cells that were trained elsewhere, as JSON lines on stdin."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from depthlr.cli.output import print_note
from depthlr.study.ask_tell import tell


def tell_command(study: Annotated[str, typer.Argument(help="the .sqlite of a study, as depthlr ask made it")]) -> None:
    """Take the losses of trained cells, as JSON lines on stdin; a line told twice is kept once."""
    new = tell(study, sys.stdin)
    print_note(f"{new} new cells are kept in {study}")
