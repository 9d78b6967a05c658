"""A study on disk: one SQLite file with the description and a checkable record of every finished cell.

Every record is committed and synced at once. The journal is SQLite's plain rollback journal, not a write-ahead log: a
study stays one file that can be copied whenever no sweep runs, and a killed process leaves at most a journal that the
next opening rolls back.

Opening a file checks it. Tables that are not exactly ours, a broken page and a fact whose digest does not match end in
a sentence. A record whose digest does not match is one damaged cell. Cells are read from the table itself, never
through its index, and the writer rebuilds an index that disagrees with its table.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from depthlr.errors import DepthlrError
from depthlr.study.description import UNCOUNTED, Study, difference
from depthlr.study.lock import lock
from depthlr.study.record import RECORD_COLUMNS, Content, Environment, Record, read_facts, read_record
from depthlr.training.cell import Cell

APPLICATION = 0x64706C72  # "dplr", where SQLite keeps whose file it is
SCHEMA = 2  # 1 had no digests of the facts; its files are read, and the first writer adds them
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
RESUME = "undo the change to resume it, choose another file, or delete this one"
ANEW = "restore a copy of it, or move it away and run the sweep anew"
NOT_OURS = "is not a study of depthlr, or lost its header: it was left as it is; name another .sqlite file"
WRITE_TIMEOUT = 30.0  # seconds to wait for a reader or the writer to end its transaction
SQL_TABLES = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE cells (size INTEGER, seed INTEGER, rate REAL, loss REAL, diverged INTEGER, seconds REAL, "
    "finished TEXT, losses BLOB, sha256 TEXT, evaluations BLOB, failure TEXT, PRIMARY KEY (size, seed, rate))",
)
# As cells were kept before runs were evaluated.
WITHOUT_EVALUATIONS = SQL_TABLES[1].replace("evaluations BLOB, failure TEXT, ", "")
DIGESTS = "sha256"  # the row of facts that holds the digests of the others, by name
# What SQLite's integrity check says of single rows and indexes; all else it says is of broken pages.
ROW_COMPLAINT = re.compile(
    r"row \d+ |wrong # of entries in index|non-unique entry in index|\S+ value in|rowid not at end"
)


class Store:
    """The one writer of a study's file; `open_store` makes it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, dropped: tuple[Cell, ...] = ()) -> None:
        self.path = path
        self._connection = connection
        self._dropped = dropped  # damaged cells that were dropped when the file was opened

    def content(self) -> Content:
        with _sentences(self.path):
            found = read_content(self.path, self._connection)
            return replace(found, damaged=(*self._dropped, *found.damaged))

    def record_environment(self, environment: Environment) -> None:
        """Keep what runs the cells to come, after those that ran the ones before; none of them twice.

        Args:
            environment: The machine and its software.
        """
        with _sentences(self.path), _transaction(self._connection):
            known = json.loads(fact_rows(self._connection).get("environments", "[]"))
            if vars(environment) not in known:
                _keep(self._connection, "environments", [*known, vars(environment)])
                _seal(self._connection)

    def drop_damaged(self) -> None:
        """Delete damaged records. A record with a damaged size, seed or rate would never be replaced by `put`."""
        with _sentences(self.path), _transaction(self._connection):
            _rebuild(self._connection)
        self._dropped = ()

    def drop_failed(self) -> None:
        """Forget the cells that could not be trained, so that they are tried again."""
        with _sentences(self.path), _transaction(self._connection):
            self._connection.execute("DELETE FROM cells WHERE failure != ''")

    def put(self, *records: Record) -> None:
        """Keep finished cells, all or none, for good once this returns; damaged records of them are replaced.

        Args:
            records: The cells.
        """
        with _sentences(self.path), _transaction(self._connection):
            _insert(self._connection, RECORD_COLUMNS, [one.row() for one in records])


@contextmanager
def open_store(
    path: Path | str,
    study: Study,
    *,
    data_digest: str | None = None,
    depths: Mapping[int, int] | None = None,
    patience: float = 0.0,
) -> Iterator[Store]:
    """Open a study's file for writing, by this process alone. The file is made if it does not exist.

    Args:
        path: The study's file.
        study: The study. If the file holds cells of another one, it is refused. Cells that failed do not count.
        data_digest: The digest of the data, recorded by the first run. Other data are refused once a cell is kept.
        depths: The effective depth of each size, recorded and checked in the same way.
        patience: How many seconds to wait for another writer.
    """
    place, given = Path(path), Content(study, data_digest, depths, ())
    with _sentences(place):
        if place.is_dir():
            raise DepthlrError(f"{path} is a folder: name the file in it that is to keep the study.")
    with ExitStack() as stack:
        with _sentences(place):  # of the file's own troubles alone, not of what happens while it is open
            stack.enter_context(lock(place, patience))
            connection = stack.enter_context(_connection(place, "rwc"))
            # A first run that was killed may leave an empty file. SQLite counts no pages in a damaged tiny file either,
            # so the file's size is looked at too.
            new = _pragma(connection, "page_count") == 0 and place.stat().st_size == 0
            dropped: tuple[Cell, ...] = ()
            needs_index = False
            if not new:
                _check_ours(place, connection)
                needs_index = not check_pages(place, connection)
                _check_same(place, connection, given)
            with _transaction(connection):
                if new:
                    _create(connection)
                elif "NULL" in _cell_columns(connection):  # a file from before runs were evaluated
                    for column in ("evaluations BLOB", "failure TEXT"):
                        connection.execute(f"ALTER TABLE cells ADD COLUMN {column}")
                if needs_index:
                    dropped = _rebuild(connection)
                _keep_facts(place, connection, given)
        yield Store(place, connection, dropped)


def read_store(path: Path | str) -> Content:
    """Read a study's file, during a sweep or after it.

    Args:
        path: The study's file.
    """
    place = Path(path)
    check_not_described(place)
    with _sentences(place):  # of a name that is too long, too
        if not place.is_file():
            raise DepthlrError(f"There is no file {path}: name a study that depthlr sweep wrote.")
    with _sentences(place), reading(place) as connection:
        check_pages(place, connection)
        return read_content(place, connection)


def check_not_described(path: Path) -> None:
    """Refuse a file that by its name describes a study, and so holds no results.

    Args:
        path: The file that was named.
    """
    if path.suffix == ".toml":
        raise DepthlrError(
            f"{path} describes a study; its results are in {path.with_suffix('.sqlite')}: name that file."
        )


@contextmanager
def reading(path: Path, patience: float = WRITE_TIMEOUT) -> Iterator[sqlite3.Connection]:
    """A read-only connection to a study's file.

    Args:
        path: The study's file.
        patience: How many seconds to wait for its writer's commit.
    """
    # Even a reader must be able to write where a killed process left a journal to roll back.
    mode = "rw" if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else "ro"
    with _connection(path, mode, patience) as connection:
        connection.execute("PRAGMA query_only = ON")
        _check_ours(path, connection)
        yield connection


def fact_rows(connection: sqlite3.Connection) -> dict[str, str]:
    """The facts as they are stored, each of them held to its digest.

    Args:
        connection: A connection to a study's file.
    """
    rows = dict(connection.execute("SELECT name, value FROM facts NOT INDEXED").fetchall())
    kept = rows.pop(DIGESTS, None)
    if kept is None and _pragma(connection, "user_version") < SCHEMA:
        return rows
    digests = _digests(rows)
    if kept != json.dumps(digests):
        changed = [name for name in digests if digests[name] not in str(kept)] or [DIGESTS]
        raise DepthlrError(f"{', '.join(changed)} changed since it was written")
    return rows


def check_pages(path: Path, connection: sqlite3.Connection) -> bool:
    """Refuse a file with a broken page; False if only rows or indexes disagree, which reading the tables survives.

    Args:
        path: The file, for the error.
        connection: A connection to it.
    """
    found = [str(line) for (line,) in connection.execute("PRAGMA integrity_check")]
    for line in found:
        if line != "ok" and not ROW_COMPLAINT.match(line):
            says = " ".join(line.replace("*** in database main ***", "").split())
            raise DepthlrError(_damaged_error(path, says))
    return found == ["ok"]


def _cell_columns(connection: sqlite3.Connection) -> str:
    """The columns of a record, as a query names them; NULL for one that an older file has not.

    Args:
        connection: A connection to a study's file.
    """
    there = [row[1] for row in connection.execute("PRAGMA table_info(cells)")]
    missing = [f"NULL AS {name}" for name in RECORD_COLUMNS if name not in there]
    return ", ".join([*there, *missing])


@contextmanager
def _connection(path: Path, mode: str, patience: float = WRITE_TIMEOUT) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, timeout=patience)
    try:
        connection.isolation_level = None  # each statement is its own transaction unless one is begun
        # A byte that is no UTF-8 must reach the record's digest, and spoil that record alone.
        connection.text_factory = lambda text: text.decode(errors="backslashreplace")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA synchronous = EXTRA")
        yield connection
    finally:
        connection.close()


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # a full disk has ended it already
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _create(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")
    for table in SQL_TABLES:
        connection.execute(table)
    _seal(connection)


def _rebuild(connection: sqlite3.Connection) -> tuple[Cell, ...]:
    """Rewrite the table of cells from its sound records, and every index. Return what was dropped."""
    rows = connection.execute(f"SELECT rowid, {', '.join(RECORD_COLUMNS)} FROM cells NOT INDEXED").fetchall()
    sound = [row for row in rows if read_record(row[1:]) is not None]
    connection.execute("DROP TABLE cells")
    connection.execute(SQL_TABLES[1])
    _insert(connection, ("rowid", *RECORD_COLUMNS), sound)
    connection.execute("REINDEX")
    kept = {row[0] for row in sound}
    return tuple(Cell(*row[1:4]) for row in rows if row[0] not in kept)


def _insert(connection: sqlite3.Connection, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    marks = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT OR REPLACE INTO cells ({', '.join(columns)}) VALUES ({marks})", rows)


def _check_ours(path: Path, connection: sqlite3.Connection) -> None:
    if _pragma(connection, "application_id") != APPLICATION:
        raise DepthlrError(f"{path} {NOT_OURS}.")
    if _pragma(connection, "user_version") > SCHEMA:
        raise DepthlrError(f"{path} was written by a newer depthlr: upgrade with pip install -U depthlr.")
    # Nothing of a stranger's file is run: no view, no trigger, no table with expressions of its own.
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")} - {None}
    if found not in (set(SQL_TABLES), {SQL_TABLES[0], WITHOUT_EVALUATIONS}):
        raise DepthlrError(_damaged_error(path, "its tables are not those that depthlr makes"))


def _check_same(path: Path, connection: sqlite3.Connection, given: Content) -> None:
    """Refuse to mix new cells with those of another study, of other data, or of models that were changed since."""
    cells = f"SELECT {_cell_columns(connection)} FROM cells NOT INDEXED"
    found = connection.execute(f"SELECT DISTINCT size FROM ({cells}) WHERE coalesce(failure, '') = '' ORDER BY size")
    swept = [size for (size,) in found]
    if not swept:  # as a first run that failed leaves it
        return
    stored = _facts(path, connection)
    if stored.study.digest != given.study.digest:
        changes = "; ".join(line for line in difference(stored.study, given.study) if not line.startswith(UNCOUNTED))
        raise DepthlrError(f"{path} holds another study ({changes}): {RESUME}.")
    if given.data_digest is not None and stored.data_digest not in (None, given.data_digest):
        digests = f"digest {stored.data_digest}, now {given.data_digest}"
        raise DepthlrError(f"{path} was begun on other data ({digests}): {RESUME}.")
    before, now = stored.depths or {}, given.depths or {}
    changed = [size for size in swept if size in before and before[size] != now.get(size, before[size])]
    if changed:
        changes = "; ".join(f"{stored.study.model.size_name}={size}: {before[size]} -> {now[size]}" for size in changed)
        raise DepthlrError(f"{path} was begun on models of other depths ({changes}): {RESUME}.")


def _keep_facts(path: Path, connection: sqlite3.Connection, given: Content) -> None:
    """The study and what is known of it; a study of which no cell was trained makes way for another."""
    if not fact_rows(connection) or _facts(path, connection).study.digest != given.study.digest:
        connection.execute("DELETE FROM facts")
        connection.execute("DELETE FROM cells")
        _keep(connection, "study", given.study.to_dict())
    if given.data_digest is not None:
        _keep(connection, "data", given.data_digest)
    if given.depths is not None:
        _keep(connection, "depths", given.depths)  # JSON's keys are texts
    _seal(connection)
    connection.execute(f"PRAGMA user_version = {SCHEMA}")


def _keep(connection: sqlite3.Connection, name: str, value: Any) -> None:
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))


def _seal(connection: sqlite3.Connection) -> None:
    """Keep the digest of every fact, so that none can change unnoticed."""
    rows = dict(connection.execute("SELECT name, value FROM facts WHERE name != ?", (DIGESTS,)).fetchall())
    _keep(connection, DIGESTS, _digests(rows))


def _digests(rows: Mapping[str, str]) -> dict[str, str]:
    return {str(name): hashlib.sha256(str(rows[name]).encode()).hexdigest() for name in sorted(rows, key=str)}


def _facts(path: Path, connection: sqlite3.Connection) -> Content:
    try:
        return read_facts(fact_rows(connection))
    except (ValueError, RecursionError) as error:  # DepthlrError and JSON's are ValueErrors
        raise DepthlrError(f"{path} holds no readable study ({error}), so its cells are lost: {ANEW}.") from error


def read_content(path: Path, connection: sqlite3.Connection) -> Content:
    facts = _facts(path, connection)
    records: dict[Cell, Record] = {}
    damaged = []
    query = f"SELECT {_cell_columns(connection)} FROM cells NOT INDEXED ORDER BY size, seed, rate"
    for row in connection.execute(query):
        found = read_record(row)
        if found is None:
            damaged.append(Cell(*row[:3]))
        else:
            records[found.cell] = found
    return replace(facts, records=records, damaged=tuple(damaged))


def _damaged_error(path: Path, how: str) -> str:
    return f"{path} is damaged ({how}): {ANEW}."


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Turn errors of the file into one sentence. Whatever was committed before is safe."""
    try:
        yield
    except UnicodeDecodeError as error:  # Python fails on SQLite's own message, which quotes the damaged bytes
        raise DepthlrError(_damaged_error(path, "its tables have names that are no text")) from error
    except (sqlite3.Error, OSError) as error:
        text = str(error)
        sqlite = text if isinstance(error, sqlite3.Error) else ""  # an OSError's has the path in it, and so any word
        if "not a database" in sqlite:
            says = NOT_OURS
        elif "malformed" in sqlite:
            raise DepthlrError(_damaged_error(path, text)) from error
        elif getattr(error, "sqlite_errorname", "") == "SQLITE_READONLY_DBMOVED":
            says = "was deleted or moved while a sweep wrote it: put it back, or run the same again to begin anew"
        elif "full" in sqlite or getattr(error, "errno", None) in NO_ROOM:
            says = "cannot grow, the disk is full: free some space and run the same again; finished cells are kept"
        elif "locked" in sqlite:
            says = "is held by another program: close it and run the same again; finished cells are kept"
        else:
            says = f"cannot be written or read ({text})"
            says += ": check that its folder is there and that you may write to it"
        raise DepthlrError(f"{path} {says}.") from error
