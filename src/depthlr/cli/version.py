"""`depthlr --version`: which one this is."""

from __future__ import annotations

from typing import Annotated

import typer

from depthlr.version import VERSION


def _print(asked: bool) -> None:
    if asked:
        print(f"depthlr {VERSION}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_print, is_eager=True, help="print the version, and end")]
