"""The verbs, and what they share."""

from __future__ import annotations

import typer

from depthlr.cli.check import check
from depthlr.cli.data import data
from depthlr.cli.demo import demo
from depthlr.cli.depth import depth
from depthlr.cli.export import export
from depthlr.cli.fit import fit
from depthlr.cli.literal_help import LiteralHelp
from depthlr.cli.measure import measure
from depthlr.cli.plot import plot
from depthlr.cli.report import report
from depthlr.cli.reproduce import PASSED_ON, reproduce
from depthlr.cli.serve import serve
from depthlr.cli.suggest import suggest
from depthlr.cli.sweep import sweep
from depthlr.cli.transfer import transfer
from depthlr.cli.version import Version
from depthlr.study.exits import exits_told

app = typer.Typer(
    help="Tune a shallow model, get the learning rate of the deep one.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for verb in (demo, depth, measure, suggest, transfer, check, sweep, serve, fit, report, plot, export, data):
    app.command(cls=LiteralHelp)(exits_told()(verb))
app.command(context_settings=PASSED_ON, add_help_option=False)(reproduce)


@app.callback()
def options(version: Version = False) -> None:
    """What stands before a verb."""
