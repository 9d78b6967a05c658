"""A setting's tables: the rows as CSV, and as JSON how far it came, what ran it, the times and the study."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.study.description import Study, study_from_dict
from depthlr.study.record import Environment, Record
from depthlr.study.results import CSV_COLUMNS
from depthlr.training.cell import Cell
from experiments.paper.running.jobs import Place
from experiments.running import PROVENANCE, SAMPLED
from experiments.tables import (
    Shape,
    an_object,
    damaged,
    or_else,
    read_table,
    read_text,
    shaped,
    truth,
    write_json,
    write_table,
)

CELLS = (*CSV_COLUMNS, "seconds")  # of a sweep
ENERGIES = ("size", "depth", "seed", "mean", "readout", "loss")  # of a measurement
CARRIED = ("rule", "size", "depth", "seed", "rate", "loss", "diverged", "seconds")  # of carried rates


def write_setting(
    out: Place, columns: Sequence[str], rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], *, complete: bool
) -> bool:
    """Write rows and facts, but never over a fuller table. True if they were written.

    Args:
        out: where they go.
        columns: of the CSV.
        rows: what was measured.
        facts: the entries of the JSON, but for the name of the setting and how far it came.
        complete: whether nothing is left to measure.
    """
    if not complete and is_fuller(out, len(rows)):
        return False
    place = {"recipe": out.recipe, "setting": out.setting, "protocol": out.protocol}
    write_table(out.file("csv"), columns, rows)
    write_json(out.file("json"), {**place, "complete": complete, "cells": len(rows), **facts})
    return True


def is_fuller(out: Place, cells: int) -> bool:
    """Does a table lie there already that is finished, or has more cells?

    Args:
        out: where it would lie.
        cells: as many as there are now.
    """
    file = out.file("json")
    if not file.is_file():
        return False
    try:
        found = shaped(read_text(file), {"complete": truth, "cells": check.count})
    except ValueError:  # a damaged one is worth less than any
        return False
    return found["complete"] is True or found["cells"] > cells


def read_setting(place: Place, columns: Sequence[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Facts and rows, as many as the facts say: a table that was cut short would give other slopes.

    Args:
        place: where they lie.
        columns: of the CSV.
    """
    file = place.file("json")
    text = read_text(file)
    try:
        facts = shaped(text, FACTS)
    except (ValueError, OverflowError) as error:  # an integer of JSON may be too large for anything
        raise damaged(file, f"is no JSON of a setting ({error})") from error
    rows = read_rows(place.file("csv"), columns)
    if len(rows) != facts["cells"]:
        raise damaged(place.file("csv"), f"has {len(rows)} rows, {file} says {facts['cells']} cells")
    return facts, rows


def _environments(name: str, value: Any) -> tuple[Environment, ...]:
    """None in a file from before they were kept."""
    if not isinstance(value, list | None):
        raise DepthlrError(f"{name} is no list")
    read = an_object({field.name: check.text for field in fields(Environment)})
    return tuple(Environment(**read(name, one)) for one in value or ())


def _study(name: str, value: Any) -> Study:
    if not isinstance(value, dict):
        raise DepthlrError(f"{name} is no object")
    return study_from_dict(value)


FACTS: Shape = {
    "complete": truth,
    "cells": partial(check.count, least=0),
    **PROVENANCE,
    "environments": _environments,
    "at_once": or_else(1, check.count),
    "sweep_seconds": check.number,
    "carried_seconds": or_else(None, check.number),
    "plain_grid_seconds": or_else(None, check.number),
    "plain_grid_is": or_else(SAMPLED, check.text),
    "study": _study,
}


def read_rows(file: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a table. A cell that its column cannot hold is named in the error.

    Args:
        file: the CSV.
        columns: the columns that are read, of COLUMNS.
    """
    return [
        {column: _cell(file, line, column, row[column]) for column in columns}
        for line, row in enumerate(read_table(file, columns), 2)
    ]


def _cell(file: Path, line: int, column: str, text: str) -> Any:
    try:
        return COLUMNS[column](text)
    except ValueError as error:
        raise damaged(file, f"has {text!r} for {column} in line {line}") from error


def _size(text: str) -> int:
    return check.count("A size", int(text), least=1)


def _loss(text: str) -> float:
    """Infinite where the run diverged."""
    return math.inf if text == "inf" else check.finite("A loss", float(text))


def _amount(text: str) -> float:
    return check.finite("An energy, or a time,", float(text), least=0)


COLUMNS: dict[str, Callable[[str], Any]] = {
    "rule": str,
    "size": _size,
    "depth": _size,
    "seed": lambda text: check.count("A seed", int(text), least=0),
    "rate": lambda text: check.positive("A rate", float(text)),
    "loss": _loss,
    "diverged": lambda text: ("false", "true").index(text) == 1,
    "seconds": _amount,
    "mean": _amount,
    "readout": _amount,
}


def record_of(row: Mapping[str, Any]) -> Record:
    """A row of CELLS or CARRIED as a record. A table has no loss of every step.

    Args:
        row: the row.
    """
    cell = Cell(row["size"], row["seed"], row["rate"])
    return Record(cell, row["loss"], row["diverged"], row["seconds"], finished="", losses=b"")
