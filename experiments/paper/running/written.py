"""A setting's tables as they were written, read back: facts, rows, and the rows of a sweep as records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from depthlr import check
from depthlr.study.record import Record
from depthlr.study.results import CSV_COLUMNS
from depthlr.training.cell import Cell
from experiments.paper.columns import read_rows
from experiments.paper.place import Place
from experiments.paper.running.setting_facts import read_setting_facts
from experiments.tables import Shape, damaged, read_text, shaped, truth

CELLS = (*CSV_COLUMNS, "seconds")
EXTENT: Shape = {"complete": truth, "cells": check.count}


def read_written(place: Place, columns: Sequence[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Facts and rows, as many as the facts say: a table that was cut short would give other slopes."""
    facts = read_setting_facts(place.file("json"))
    rows = read_rows(place.file("csv"), columns)
    if len(rows) != facts["cells"]:
        raise damaged(place.file("csv"), f"has {len(rows)} rows, {place.file('json')} says {facts['cells']} cells")
    return facts, rows


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


def record_of(row: Mapping[str, Any]) -> Record:
    """A table has no loss of every step."""
    cell = Cell(row["size"], row["seed"], row["rate"])
    return Record(cell, row["loss"], row["diverged"], row["seconds"], finished="", losses=b"")
