"""A study's file followed while a sweep writes it: only what is new is read, and the writer never waits for long.

Each reading opens its own connection and reads a few records at a time, so that no lock lasts beyond milliseconds. The
file is touched through SQLite alone: closing it otherwise would drop the locks of a sweep in the same process.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from depthlr.study.record import COLUMNS, Record, read_record
from depthlr.study.results import Results, results_of
from depthlr.study.store import APPLICATION, SCHEMA, read_store
from depthlr.study.toml import study_from_dict
from depthlr.training.cell import Cell

PATIENCE = 0.5  # seconds to wait for the writer's commit; after that the next reading tries again
PAGE = 1000  # records a read transaction
OWNERSHIP = ("application_id", "user_version")


@dataclass(frozen=True)
class Snapshot:
    """A study's results at one moment; `version` is another whenever they are."""

    results: Results
    data_digest: str | None
    damaged: int
    version: int


class Follower:
    """Reads one file again and again; not for several threads at once."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._version = 0
        self._forget()

    def read(self) -> Snapshot | None:
        """The study as it is now, the last one seen while the writer is busy, or None before there is any."""
        try:
            with _reading(self.path) as connection:
                self._read(connection)
        except (sqlite3.Error, OSError, ValueError, TypeError):  # not there yet, busy, or half created: wait for it
            pass
        return self._last

    def _forget(self) -> None:
        self._facts: dict[str, Any] = {}
        self._row = 0
        self._records: dict[Cell, Record] = {}
        self._damaged: set[Cell] = set()
        self._last: Snapshot | None = None

    def _read(self, connection: sqlite3.Connection) -> None:
        (owner,), (schema,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in OWNERSHIP)
        if owner != APPLICATION or schema > SCHEMA:
            raise ValueError("not a study that this depthlr can read")
        facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
        (newest,) = connection.execute("SELECT coalesce(max(rowid), 0) FROM cells").fetchone()
        if newest < self._row or facts.get("study") != self._facts.get("study", facts.get("study")):
            self._forget()  # another study took the file's place
        if self._last is not None and newest == self._row and facts == self._facts:
            return
        study = study_from_dict(json.loads(facts["study"]))
        depths = json.loads(facts.get("depths", "null"))
        while rows := _rows(connection, self._row):
            for rowid, *row in rows:
                self._keep(Cell(*row[:3]), read_record(row))
                self._row = rowid
        records = tuple(self._records[cell] for cell in sorted(self._records))
        results = Results(study, records, depths and {int(size): depth for size, depth in depths.items()})
        self._facts = facts
        self._version += 1
        self._last = Snapshot(results, json.loads(facts.get("data", "null")), len(self._damaged), self._version)

    def _keep(self, cell: Cell, record: Record | None) -> None:
        if record is None:
            self._damaged.add(cell)
        else:
            self._damaged.discard(cell)  # run again
            self._records[cell] = record


def read_snapshot(path: Path | str) -> Snapshot:
    """A study's file once; what is wrong with it is said as `read_store` says it."""
    found = Follower(path).read()
    if found is None:
        content = read_store(path)
        found = Snapshot(results_of(content), None, len(content.damaged), 0)
    return found


def _rows(connection: sqlite3.Connection, after: int) -> list[tuple[Any, ...]]:
    """The next page of records; a replaced record is a new row, so that what is new always comes last."""
    query = f"SELECT rowid, {', '.join(COLUMNS)} FROM cells WHERE rowid > ? ORDER BY rowid LIMIT {PAGE}"
    return connection.execute(query, (after,)).fetchall()


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    # Even a reader must be able to write where a killed process left a journal to roll back.
    mode = "rw" if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else "ro"
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, timeout=PATIENCE)
    try:
        connection.execute("PRAGMA query_only = ON")
        yield connection
    finally:
        connection.close()
