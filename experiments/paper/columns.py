"""What the columns of the recipes' tables hold, and rows read back as that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from depthlr import check
from experiments.tables import damaged, read_table


def read_rows(file: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows, of each these columns; a cell that its column cannot hold is named."""
    return [
        {column: _cell(file, line, column, row[column]) for column in columns}
        for line, row in enumerate(read_table(file, columns), 2)
    ]


def _cell(file: Path, line: int, column: str, text: str) -> Any:
    try:
        return KINDS[column](text)
    except ValueError as error:
        raise damaged(file, f"has {text!r} for {column} in line {line}") from error


def _size(text: str) -> int:
    return check.count("A size", int(text), least=1)


def _seed(text: str) -> int:
    return check.count("A seed", int(text), least=0)


def _rate(text: str) -> float:
    return check.positive("A rate", float(text))


def _loss(text: str) -> float:
    """Infinite where the run diverged."""
    return math.inf if text == "inf" else check.finite("A loss", float(text))


def _amount(text: str) -> float:
    return check.finite("An energy, or a time,", float(text), least=0)


def _truth(text: str) -> bool:
    return ("false", "true").index(text) == 1


KINDS: dict[str, Callable[[str], Any]] = {
    "rule": str,
    "size": _size,
    "depth": _size,
    "seed": _seed,
    "rate": _rate,
    "loss": _loss,
    "diverged": _truth,
    "seconds": _amount,
    "mean": _amount,
    "readout": _amount,
}
