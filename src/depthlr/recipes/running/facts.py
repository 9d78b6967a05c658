"""What is known of a setting besides its cells: where and on what they were trained, and the times. Kept as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from depthlr.errors import DepthlrError
from depthlr.recipes.place import Place
from depthlr.recipes.table import read_text, write_text


@dataclass
class Facts:
    """Times add up over the calls that a setting took; `plain_cell_seconds` are sampled, by size."""

    provenance: dict[str, Any] = field(default_factory=dict)
    sweep_seconds: float = 0.0
    carried_seconds: float = 0.0
    plain_cell_seconds: dict[int, float] = field(default_factory=dict)

    @contextmanager
    def timing(self, what: Literal["sweep_seconds", "carried_seconds"], file: Path) -> Iterator[None]:
        """Add the time spent inside, and keep the facts, however it ends."""
        start = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, what, getattr(self, what) + time.perf_counter() - start)
            self.write(file)

    def write(self, file: Path) -> None:
        write_text(file, json.dumps(asdict(self), indent=1) + "\n")


def read_facts(file: Path) -> Facts:
    """What an earlier call left, or nothing."""
    if not file.is_file():
        return Facts()
    try:
        found = Facts(**json.loads(read_text(file)))
        found.plain_cell_seconds = {int(size): float(s) for size, s in found.plain_cell_seconds.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise DepthlrError(f"{file} holds no facts of a setting ({error}): delete it; times begin anew.") from error
    return found


def is_fuller(out: Place, cells: int) -> bool:
    """Does a table lie there already that is finished, or has more cells?"""
    file = out.file("json")
    try:
        found = json.loads(read_text(file)) if file.is_file() else {}
        return found.get("complete") is True or int(found.get("cells") or 0) > cells
    except (AttributeError, TypeError, ValueError):
        return False
