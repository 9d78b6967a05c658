"""The verbs, and what they share."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from depthlr.cli.literal_help import LiteralHelp
from depthlr.cli.version import Version
from depthlr.errors import exits_told

# Each verb is the function of that name in the module of that name. Its line of help stands here a second time, so that
# `depthlr --help` imports none of them.
VERBS = {
    "demo": "Tune the rate at every depth on embedded digits, fit the law, and compare the rules: about a minute.",
    "depth": "Count the effective depth of a model.",
    "measure": "Measure the update energy of one optimizer step at every unit.",
    "suggest": "Suggest a rate for a model as it is initialised.",
    "transfer": "Carry a rate from one depth to another.",
    "check": "Check that a rate carries across depths; exit code 0 for pass and caution, 1 for fail.",
    "sweep": "Sweep rates at several depths and fit the law; run again, it resumes.",
    "serve": "Show a sweep's report live, to this computer alone, until Ctrl-C.",
    "fit": "Fit rate = c depth^slope to tuned rates.",
    "report": "Write a sweep's report: the answer, the plots, what was run.",
    "plot": "Draw a sweep as a picture.",
    "export": "Write a sweep's cells as a table.",
    "data": "Fetch, verify and describe a data set.",
    "reproduce": "Reproduce the paper's tables and figures (in a checkout of depthlr); --help lists the options.",
}


class Verb(LiteralHelp):
    """A verb whose module is imported when it is called: importing torch takes two seconds."""

    def loaded(self) -> TyperCommand:
        """The verb itself, with its parameters."""
        alone = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
        module = import_module(f"depthlr.cli.{self.name}")
        options = getattr(module, "COMMAND", {})
        alone.command(self.name, cls=LiteralHelp, **options)(exits_told()(getattr(module, str(self.name))))
        command = get_command(alone)
        assert isinstance(command, TyperCommand)
        return command

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        return self.loaded().make_context(*arguments, **options)


class Verbs(TyperGroup):
    """All of them, in the order of the help."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, line in VERBS.items():
            self.add_command(Verb(name=name, help=line))


app = typer.Typer(
    cls=Verbs,
    help="Tune a shallow model, get the learning rate of the deep one.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback()
def options(version: Version = False) -> None:
    """What stands before a verb."""
