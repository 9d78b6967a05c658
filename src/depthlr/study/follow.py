"""Follow a study's file while a sweep writes it.

Each reading opens its own connection, and reads the records only if something is new. The file is accessed through
SQLite only: closing it otherwise would drop the locks of a sweep in the same process.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from depthlr.study.record import Content
from depthlr.study.results import Results, results_of
from depthlr.study.store import check_pages, fact_rows, read_content, read_store, reading

READ_TIMEOUT = 0.5  # seconds to wait for the writer's commit; after that the next reading tries again
NOT_YET = (sqlite3.Error, OSError, ValueError, RecursionError)  # of a file that is busy, half created or missing
NEWEST = "SELECT count(*), max(rowid), max(finished) FROM cells"  # a record that is replaced is a new row


@dataclass(frozen=True)
class Snapshot:
    """A study's results at one moment; `version` changes whenever the results change."""

    results: Results
    data_digest: str | None
    version: int
    path: Path | None = None  # the study's file, as it was given

    def by(self, metric: str | None) -> Snapshot:
        """The same moment, judged by another stored metric, as `Results.by` takes it; None changes nothing.

        Args:
            metric: The metric.
        """
        return self if metric is None else replace(self, results=self.results.by(metric))


def read_snapshot(path: Path | str) -> Snapshot:
    """Read a study's file once. Errors are those of `read_store`.

    Args:
        path: The study's file.
    """
    return _snapshot(read_store(path), 0, Path(path))


class Follower:
    """Reads one file again and again; not for several threads at once."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._last: Snapshot | None = None
        self._held: Any = None  # the facts and the newest record of `_last`

    def read(self) -> Snapshot | None:
        """The study as it is now, the last one seen while the writer is busy, or None before there is any."""
        with suppress(*NOT_YET), reading(self.path, READ_TIMEOUT) as connection:
            if self._last is None:  # once: it reads the whole file
                check_pages(self.path, connection)
            held = fact_rows(connection), connection.execute(NEWEST).fetchone()
            if held != self._held:
                version = 1 if self._last is None else self._last.version + 1
                self._last = _snapshot(read_content(self.path, connection), version, self.path)
                self._held = held
        return self._last


def _snapshot(content: Content, version: int, path: Path) -> Snapshot:
    return Snapshot(results_of(content), content.data_digest, version, path)
