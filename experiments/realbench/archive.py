"""Tables in one file: packed where they were made, unpacked where they are committed.

Tables are merged, never overwritten blindly: of two tables of one study the finished one wins, else the fuller one.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path

from depthlr.errors import DepthlrError
from experiments.realbench.kept import read_facts
from experiments.realbench.plan import MINUTES

SUPERSEDED = "superseded"
MOST_BYTES = 16 * 2**20  # of an archive


def merge(source: Path, target: Path) -> list[str]:
    """Take over every table of `source` that `target` lacks, or that is fuller; the names of those.

    Raises:
        DepthlrError: two tables of one name are of different studies. Nothing is taken over then.
    """
    taken = []
    for table in tables_below(source):
        here = target / table
        if is_fuller(source / table, here):
            taken.append(table)
    for table in taken:
        (target / table).parent.mkdir(parents=True, exist_ok=True)
        for suffix in (".csv", ".json"):
            if (part := (source / table).with_suffix(suffix)).is_file():
                (target / table).with_suffix(suffix).write_bytes(part.read_bytes())
    if _merge_minutes(source / MINUTES, target / MINUTES):
        taken.append(MINUTES)
    return taken


def tables_below(folder: Path) -> list[str]:
    """The tables in a folder, by their paths in it."""
    found = (path.relative_to(folder) for path in folder.rglob("*.csv"))
    return sorted(str(path) for path in found if SUPERSEDED not in path.parts and path.name != MINUTES)


def is_fuller(table: Path, other: Path) -> bool:
    """Does a table hold more than another one of the same study?"""
    mine, theirs = read_facts(table), read_facts(other)
    if not other.is_file():
        return "runs" not in mine or mine["runs"] > 0
    if mine["study"] != theirs["study"]:
        raise DepthlrError(f"{table} and {other} are of different studies: move the one away that is not wanted.")
    if mine["complete"] != theirs["complete"]:
        return bool(mine["complete"])
    return int(mine.get("runs", 0)) > int(theirs.get("runs", 0))


def pack(tables: Path, known: Path, archive: Path) -> int:
    """Write what `tables` hold beyond `known` into one file; the number of tables.

    Raises:
        DepthlrError: the file is larger than a transfer takes.
    """
    new = [table for table in tables_below(tables) if is_fuller(tables / table, known / table)]
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_name(f"{archive.name}.part")
    with tarfile.open(part, "w:gz") as packed:
        for table in new:
            for suffix in (".csv", ".json"):
                if (path := (tables / table).with_suffix(suffix)).is_file():
                    packed.add(path, str(Path(table).with_suffix(suffix)))
        if (tables / MINUTES).is_file():
            packed.add(tables / MINUTES, MINUTES)
    part.replace(archive)  # whole at any moment
    if archive.stat().st_size > MOST_BYTES:
        raise DepthlrError(f"{archive} has {archive.stat().st_size} bytes: unpack it and commit before going on.")
    return len(new)


def unpack(archive: Path, tables: Path) -> list[str]:
    """Merge an archive into the committed tables; the names of those that changed."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
        except (OSError, EOFError, tarfile.TarError) as error:
            raise DepthlrError(f"{archive} is no archive of tables ({error}): fetch it again.") from error
        for facts in Path(folder).rglob("*.json"):
            json.loads(facts.read_text())  # a torn file must not reach the tables
        return merge(Path(folder), tables)


def _merge_minutes(source: Path, target: Path) -> bool:
    """Add the calls that the other table does not know; True if there were any."""
    if not source.is_file():
        return False
    known = target.read_text().splitlines() if target.is_file() else []
    new = [line for line in source.read_text().splitlines() if line not in known]
    if new:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join([*known, *new]) + "\n")
    return bool(new)
