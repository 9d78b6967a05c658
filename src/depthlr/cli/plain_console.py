"""Where a verb writes what it says: word for word, for as long as somebody reads."""

from __future__ import annotations

import typer
from rich.console import Console


class PlainConsole(Console):
    """A console that styles no text by what stands in it: a model's name may hold [brackets] and :colons:."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        raise typer.Exit(1) from None  # where rich would exit itself, as a model of the user's own might
