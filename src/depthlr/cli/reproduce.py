"""`depthlr reproduce ...`: `python -m experiments.paper ...` of the checkout that this package lies in."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from depthlr.errors import DepthlrError

CHECKOUT = Path(__file__).parents[3]
# All options are passed on, --help among them.
COMMAND: dict[str, Any] = {
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
    "add_help_option": False,
}


def reproduce_command(context: typer.Context) -> None:
    """Reproduce the paper's tables and figures (in a checkout of depthlr); --help lists the options."""
    if not (CHECKOUT / "experiments" / "paper").is_dir():
        raise DepthlrError(
            "The paper's experiments are not in the installed package: run python -m experiments.paper in a checkout "
            "of depthlr's source repository."
        )
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    command = import_module("experiments.paper.app").app
    raise typer.Exit(command(context.args, prog_name=context.command_path, standalone_mode=False) or 0)
