"""Digests: every file is checked as it is loaded, against its publisher's or against the first load's."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from depthlr.data.cache_folder import cache_folder
from depthlr.data.replace_file import replace_file
from depthlr.errors import DepthlrError

RECORD = "depthlr-digests.json"


def file_digest(path: Path, algorithm: str) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, algorithm).hexdigest()
    except OSError as error:
        raise DepthlrError(f"{path} cannot be read ({error.strerror}): check that it is a readable file.") from error


def check_published(path: Path | str, md5: str, published: str) -> None:
    """Refuse a file that is not its publisher's."""
    if md5 != published:
        raise DepthlrError(
            f"{path} has md5 {md5}, but its publisher's has {published}: it is damaged or was changed; delete it and "
            "fetch it again."
        )


def check_recorded(folder: Path, name: str, sha256: str) -> None:
    """Refuse what changed since its first load; at the first load, remember it.

    The record lies beside the data, or in the user's cache where the folder cannot be written to.
    """
    places = (folder / RECORD, cache_folder() / "digests" / f"{_key(folder)}.json")
    for record in places:
        if (before := _read(record).get(name)) is not None:
            if before != sha256:
                raise DepthlrError(
                    f"{folder / name} has sha256 {sha256}, but had {before} when it was first loaded: restore it, or "
                    f"delete {record} if the change was meant."
                )
            return
    for record in places:
        try:
            with replace_file(record) as file:
                file.write(json.dumps({**_read(record), name: sha256}, indent=2, sort_keys=True).encode() + b"\n")
            return
        except OSError:
            continue
    raise DepthlrError(
        f"The digest of {folder / name} can be kept neither in {places[0]} nor in {places[1]}: set DEPTHLR_CACHE to a "
        "folder you can write to."
    )


def _key(folder: Path) -> str:
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def _read(record: Path) -> dict[str, str]:
    try:
        found = json.loads(record.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise DepthlrError(f"{record} is no record of digests: delete it, and the next load writes it anew.")
    return found
