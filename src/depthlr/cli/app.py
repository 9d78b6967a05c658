"""The verbs of `depthlr`, and its help."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from depthlr.errors import report_exit
from depthlr.version import VERSION


def _print_version(asked: bool) -> None:
    if asked:
        print(f"depthlr {VERSION}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version, and end")
]

# Each verb is a function, such as `depth_command` in `cli/depth.py`. Its line of help is repeated here, so that
# `depthlr --help` imports none of them. A test compares the two.
VERBS = {
    "demo": "Tune a small ResNet on embedded digits, carry its rate to a deeper one, tune that too: about a minute.",
    "tune": "Tune a small model, carry its rate to a large one, and check it by training; run again, it resumes.",
    "depth": "Count the effective depth of a model.",
    "measure": "Measure the update energy of one optimizer step at every unit.",
    "suggest": "Suggest a rate for a model as it is initialized.",
    "transfer": "Carry a rate from one depth to another.",
    "groups": "Print the parameter groups of a model as patterns of names with multipliers.",
    "check": "Check that a rate carries across depths; exit code 0 for pass and caution, 1 for fail.",
    "sweep": "Sweep rates at several depths and fit the law; run again, it resumes.",
    "ask": "Print the cells to train next, as JSON lines; repeat it until it prints none.",
    "tell": "Take the losses of trained cells, as JSON lines on stdin; a line told twice is kept once.",
    "serve": "Show a sweep's report live, to this computer alone, until Ctrl-C.",
    "fit": "Fit rate = c depth^slope to tuned rates.",
    "report": "Write a sweep's report: the answer, the plots, what was run.",
    "plot": "Draw a sweep as a picture.",
    "export": "Write a sweep's cells as a table.",
    "data": "Fetch, verify and describe a data set.",
    "reproduce": "Reproduce the paper's tables and figures (in a checkout of depthlr); --help lists the options.",
}
# Verbs that share a file with another one. Every other verb has a file of its own name.
SHARED_FILES = {
    "demo": "tune", "groups": "depth", "suggest": "measure", "check": "measure", "tell": "ask",
    "serve": "report", "plot": "report", "export": "report",
}  # fmt: skip


def module_of(verb: str) -> str:
    """The module that holds a verb."""
    return f"depthlr.cli.{SHARED_FILES.get(verb, verb)}"


class Verb(TyperCommand):
    """A verb whose module is imported when it is called: importing torch takes two seconds."""

    def load(self) -> TyperCommand:
        """Import the verb, and return its command with all parameters."""
        assert self.name is not None
        single = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
        module = import_module(module_of(self.name))
        options = getattr(module, "COMMAND", {})
        function = report_exit()(getattr(module, f"{self.name}_command"))
        single.command(self.name, **options)(function)
        command = get_command(single)
        assert isinstance(command, TyperCommand)
        return command

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        return self.load().make_context(*arguments, **options)


class Verbs(TyperGroup):
    """All verbs, in the order of the help."""

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
    """Options before the verb."""
