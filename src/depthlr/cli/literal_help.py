"""Help as it is written: rich would take [all] for a style, and drop it."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from typer.core import TyperArgument, TyperCommand, TyperOption


class LiteralHelp(TyperCommand):
    """A verb whose help keeps its brackets."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.help = self.help and escape(self.help)
        for parameter in self.params:
            if isinstance(parameter, TyperOption | TyperArgument):
                parameter.help = parameter.help and escape(parameter.help)
