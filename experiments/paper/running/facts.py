"""What is known of a setting besides its cells: where and on what they were trained, and the times. Kept as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from depthlr.errors import DepthlrError
from depthlr.study import check
from experiments.paper.place import Place
from experiments.paper.running.plain_grid import SAMPLED
from experiments.paper.running.provenance import PROVENANCE
from experiments.paper.shape import Shape, an_object, or_else, shaped, truth
from experiments.paper.table import read_text, write_text


@dataclass
class Facts:
    """Times add up over the calls that a setting took, each its share of the device that `at_once` jobs had in common.

    `plain_cell_seconds` are sampled, by size; `plain_grid_seconds` is what a table said whose samples are gone.
    """

    study: str | None = None  # its digest, where no store tells; of older files not known
    provenance: dict[str, Any] = field(default_factory=dict)
    sweep_seconds: float = 0.0
    carried_seconds: float = 0.0
    plain_cell_seconds: dict[int, float] = field(default_factory=dict)
    plain_grid_seconds: float | None = None
    plain_grid_is: str = SAMPLED  # how it came about
    at_once: int = 1  # the most of all calls

    @contextmanager
    def timing(
        self, what: Literal["sweep_seconds", "carried_seconds"], file: Path, at_once: int = 1
    ) -> Iterator[Callable[[], None]]:
        """Add the time spent inside, and keep the facts, however it ends.

        What it yields is to be called when a piece of work is done: the time so far is kept even if the machine goes.
        """
        last = time.perf_counter()

        def add() -> None:
            nonlocal last
            now = time.perf_counter()
            setattr(self, what, getattr(self, what) + (now - last) / at_once)
            last = now
            self.write(file)

        def done() -> None:
            self.at_once = max(self.at_once, at_once)  # where nothing was left to do, nothing shared the device
            add()

        try:
            yield done
        finally:
            add()

    def write(self, file: Path) -> None:
        write_text(file, json.dumps(asdict(self), indent=1) + "\n")


def read_facts(file: Path) -> Facts:
    """What an earlier call left, or nothing."""
    if not file.is_file():
        return Facts()
    text = read_text(file)
    try:
        return Facts(**shaped(text, KEPT))
    except ValueError as error:
        raise DepthlrError(f"{file} holds no facts of a setting ({error}): delete it; times begin anew.") from error


def is_fuller(out: Place, cells: int) -> bool:
    """Does a table lie there already that is finished, or has more cells?"""
    file = out.file("json")
    if not file.is_file():
        return False
    try:
        found = shaped(read_text(file), EXTENT)
    except ValueError:  # a damaged one is worth less than any
        return False
    return found["complete"] is True or found["cells"] > cells


def _provenance(name: str, value: Any) -> dict[str, Any]:
    """Empty where nothing was trained yet."""
    found: dict[str, Any] = {} if value == {} else an_object(PROVENANCE)(name, value)
    return found


def _by_size(name: str, value: Any) -> dict[int, float]:
    """JSON's keys are text."""
    if not isinstance(value, dict):
        raise DepthlrError(f"{name} is no object")
    return {int(size): check.number(name, seconds) for size, seconds in value.items()}


KEPT: Shape = {
    "study": or_else(None, check.text),
    "provenance": _provenance,
    "sweep_seconds": check.number,
    "carried_seconds": check.number,
    "plain_cell_seconds": _by_size,
    "plain_grid_seconds": or_else(None, check.number),
    "plain_grid_is": or_else(SAMPLED, check.text),
    "at_once": or_else(1, check.count),
}
EXTENT: Shape = {"complete": truth, "cells": check.count}
