"""Follow a study's file while a sweep writes it. Only new records are read, and the writer never waits for long.

Each reading opens its own connection and reads a few records at a time, so that no lock lasts beyond milliseconds. The
file is accessed through SQLite only: closing it otherwise would drop the locks of a sweep in the same process.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from depthlr.study.record import Content, Record, read_facts, read_record
from depthlr.study.results import Results, results_of
from depthlr.study.store import cell_columns, check_pages, fact_rows, read_store, reading
from depthlr.training.cell import Cell

READ_TIMEOUT = 0.5  # seconds to wait for the writer's commit; after that the next reading tries again
NOT_YET = (sqlite3.Error, OSError, ValueError, RecursionError)  # of a file that is busy, half created or missing
PAGE = 1000  # records per read transaction


@dataclass(frozen=True)
class Snapshot:
    """A study's results at one moment; `version` changes whenever the results change."""

    results: Results
    data_digest: str | None
    version: int

    def by(self, metric: str | None) -> Snapshot:
        """The same moment, judged by another stored metric, as `Results.by` takes it; None changes nothing.

        Args:
            metric: The metric.
        """
        return self if metric is None else replace(self, results=self.results.by(metric))


class Follower:
    """Reads one file again and again; not for several threads at once."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._version = 0
        self._forget()

    def read(self) -> Snapshot | None:
        """The study as it is now, the last one seen while the writer is busy, or None before there is any."""
        with suppress(*NOT_YET), reading(self.path, READ_TIMEOUT) as connection:
            self._read(connection)
        return self._last

    def _forget(self) -> None:
        self._facts: dict[str, str] = {}
        self._row = 0
        self._records: dict[Cell, Record] = {}
        self._damaged: dict[Cell, None] = {}
        self._last: Snapshot | None = None

    def _read(self, connection: sqlite3.Connection) -> None:
        if self._last is None:  # once: it reads the whole file
            check_pages(self.path, connection)
        facts = fact_rows(connection)
        (newest,) = connection.execute("SELECT coalesce(max(rowid), 0) FROM cells").fetchone()
        if newest < self._row or facts.get("study") != self._facts.get("study", facts.get("study")):
            self._forget()  # another study took the file's place
        if self._last is not None and newest == self._row and facts == self._facts:
            return
        known = read_facts(facts)
        while rows := _rows(connection, self._row):
            for rowid, *row in rows:
                self._keep(Cell(*row[:3]), read_record(row))
                self._row = rowid
        self._facts = facts
        self._version += 1
        content = replace(known, records=dict(self._records), damaged=tuple(self._damaged))
        self._last = _snapshot(content, self._version)

    def _keep(self, cell: Cell, record: Record | None) -> None:
        if record is None:
            self._damaged[cell] = None
        else:
            self._damaged.pop(cell, None)  # run again
            self._records[cell] = record


def read_snapshot(path: Path | str) -> Snapshot:
    """Read a study's file once. Errors are those of `read_store`.

    Args:
        path: The study's file.
    """
    return Follower(path).read() or _snapshot(read_store(path), 0)


def _snapshot(content: Content, version: int) -> Snapshot:
    return Snapshot(results_of(content), content.data_digest, version)


def _rows(connection: sqlite3.Connection, after: int) -> list[tuple[Any, ...]]:
    """The next page of records; a replaced record is a new row, so that what is new always comes last."""
    query = f"SELECT rowid, {cell_columns(connection)} FROM cells WHERE rowid > ? ORDER BY rowid LIMIT {PAGE}"
    return connection.execute(query, (after,)).fetchall()
