"""Digests: every file is checked as it is loaded, against its publisher's or against the first load's."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import tempfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from depthlr.errors import DepthlrError


def cache_folder() -> Path:
    """$DEPTHLR_CACHE, else depthlr/ in the user's cache folder."""
    if named := os.environ.get("DEPTHLR_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "depthlr"


@contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of `path` when all went well, and vanishes when it did not.

    A link stays, and what it leads to is replaced; a pipe or a device, which nothing can take the place of, is written.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    place = Path(os.path.realpath(path))
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)  # mkstemp's own 0600 would hide a shared data set's file from its other users
        os.replace(name, place)
    except BaseException:
        os.unlink(name)
        raise


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
    places = (folder / RECORD, cache_folder() / "digests" / f"{_folder_key(folder)}.json")
    for record in places:
        if (before := _read_record(record).get(name)) is not None:
            if before != sha256:
                raise DepthlrError(
                    f"{folder / name} has sha256 {sha256}, but had {before} when it was first loaded: restore it, or "
                    f"delete {record} if the change was meant."
                )
            return
    for record in places:
        try:
            with replace_file(record) as file:
                file.write(
                    json.dumps({**_read_record(record), name: sha256}, indent=2, sort_keys=True).encode() + b"\n"
                )
            return
        except OSError:
            continue
    raise DepthlrError(
        f"The digest of {folder / name} can be kept neither in {places[0]} nor in {places[1]}: set DEPTHLR_CACHE to a "
        "folder you can write to."
    )


def _folder_key(folder: Path) -> str:
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def _read_record(record: Path) -> dict[str, str]:
    try:
        found = json.loads(record.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise DepthlrError(f"{record} is no record of digests: delete it, and the next load writes it anew.")
    return found


@dataclass(frozen=True)
class LabelledFiles:
    """Files below `root` in the order of their paths, and the class of each; classes are sorted by name."""

    root: Path
    paths: tuple[str, ...]  # relative to the root, with /
    labels: tuple[int, ...]
    classes: tuple[str, ...]

    def digest(self) -> str:
        """sha256 of every path and every file's content."""
        digest = hashlib.sha256()
        for path in self.paths:
            digest.update(f"{path}\0{file_digest(self.root / path, 'sha256')}\n".encode())
        return digest.hexdigest()


def find_labelled_files(folder: Path, suffixes: Collection[str]) -> LabelledFiles:
    """The files with these suffixes in `folder/train`, or in `folder` where it has no such part.

    A file's class is the folder it lies in, below the root. Where all lie in one folder it is the name up to the first
    underscore.
    """
    if not folder.exists():
        raise DepthlrError(f"There is no folder {folder}: name the one that holds the data.")
    root = folder / "train" if (folder / "train").is_dir() else folder
    paths = sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.suffix.lower() in suffixes)
    if not paths:
        raise DepthlrError(f"{root} holds no {'/'.join(suffixes)} files: name a folder that has one folder a class.")
    if len({path.rpartition("/")[0] for path in paths}) == 1:
        named = [path.rpartition("/")[2].partition("_") for path in paths]
        if not all(underscore for _, underscore, _ in named):
            raise DepthlrError(
                f"{root} has all its files in one folder, and some without a label: make one folder a class, or name "
                "each file LABEL_anything."
            )
        classes = [label for label, _, _ in named]
    else:
        classes = [path.partition("/")[0] for path in paths]
        if loose := [path for path in paths if "/" not in path]:
            raise DepthlrError(f"{root / loose[0]} lies beside the class folders: move it into one, or away.")
    order = sorted(set(classes))
    index = {label: i for i, label in enumerate(order)}
    return LabelledFiles(root, tuple(paths), tuple(index[label] for label in classes), tuple(order))


MAX_MEMBERS = 1_000
MAX_BYTES = 1 << 30  # of the whole archive, unpacked; CIFAR's are about 180 MB


def read_members(
    path: Path, wanted: Collection[str], *, max_bytes: int = MAX_BYTES, max_members: int = MAX_MEMBERS
) -> Iterator[tuple[str, bytes]]:
    """Each wanted member and its bytes, in the archive's order; the archive is read, and checked, to its end."""
    missing = set(wanted)
    try:
        with gzip.open(path) as unpacked:
            stream = _LimitedStream(unpacked, path, max_bytes)
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                for count, member in enumerate(tar, 1):
                    if count > max_members:
                        raise DepthlrError(f"{path} has more than {max_members} members: it is not what it says.")
                    _check_member(path, member, max_bytes)
                    if member.name in missing and member.isreg():
                        missing.remove(member.name)
                        yield member.name, _read_member(tar, member)
            while stream.read(1 << 20):  # gzip checks its sum at the very end
                pass
    except DepthlrError:
        raise
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, ArithmeticError, LookupError) as error:
        # tarfile raises the last three, where a header's numbers or a map of holes make no sense.
        raise DepthlrError(f"{path} cannot be read as a .tar.gz ({error}): delete it and fetch it again.") from error
    if missing:
        raise DepthlrError(f"{path} lacks {', '.join(sorted(missing))}: delete it and fetch it again.")


def _check_member(path: Path, member: tarfile.TarInfo, max_bytes: int) -> None:
    """A data set is plain files in folders; anything else is somebody's trick."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise DepthlrError(f"{path} has a member that points outside it ({member.name!r}): do not use this archive.")
    if not (member.isdir() or member.type in (tarfile.REGTYPE, tarfile.AREGTYPE)) or member.issparse():
        raise DepthlrError(f"{path} has a member that is no plain file ({member.name!r}): do not use this archive.")
    if not 0 <= member.size <= max_bytes:  # before a buffer of that size is asked for
        raise DepthlrError(f"{path} has a member of {member.size} bytes ({member.name!r}): do not use this archive.")


def _read_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    content = b"" if file is None else file.read(member.size)
    if len(content) != member.size:
        raise EOFError(f"{member.name} ends early")
    return content


class _LimitedStream(io.RawIOBase):
    """A stream that refuses to unpack more than `limit` bytes, however little is stored."""

    def __init__(self, source: gzip.GzipFile, path: Path, limit: int) -> None:
        self.source, self.path, self.limit, self.left = source, path, limit, limit

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        content = self.source.read(self.left + 1 if size < 0 else min(size, self.left + 1))
        self.left -= len(content)
        if self.left < 0:
            raise DepthlrError(f"{self.path} unpacks to more than {self.limit} bytes: it is not what it says.")
        return content
