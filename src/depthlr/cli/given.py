"""Which options a user wrote, as opposed to those that have their default."""

from __future__ import annotations

from collections.abc import Iterable

import typer


def given(context: typer.Context, names: Iterable[str]) -> list[str]:
    """Of these parameters the written ones, as they are written."""
    sources = {name: context.get_parameter_source(name) for name in names}
    # By name, since typer has the enumeration of a click of its own.
    return [f"--{name.replace('_', '-')}" for name, source in sources.items() if source and source.name != "DEFAULT"]
