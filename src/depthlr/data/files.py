"""Files of data sets: the cache folder, safe writing, digests, labelled files and archives.

Every file is verified when it is loaded, against its publisher's digest or against the digest of the first load.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from depthlr.errors import DepthlrError, one_sentence_errors

RECORD = "depthlr-digests.json"
SAMPLES, BLOCK = 64, 1 << 16  # of a file that is too large to be read at every load
SAMPLED_FILES = 256  # of a folder whose files are too many


def cache_folder() -> Path:
    """Return `$DEPTHLR_CACHE`, or else `depthlr/` in the user's cache folder (`$XDG_CACHE_HOME` or `~/.cache`)."""
    if named := os.environ.get("DEPTHLR_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "depthlr"


@contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` at the end of the block, or is deleted if the block fails.

    Args:
        path: the file to write. The target of a link is replaced, and the link stays. A pipe or a device, which cannot
            be replaced, is written directly.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)  # mkstemp's 0600 would hide a shared file from other users
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def file_digest(path: Path, algorithm: str) -> str:
    """Return the digest of a file in hexadecimal.

    Args:
        path: the file.
        algorithm: a name that hashlib knows, such as md5 or sha256.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def sampled_digest(path: Path) -> str:
    """Return the sha256 of a file's size and of samples of its content; up to 4 MiB, all of the content is hashed.

    The samples are `SAMPLES` blocks of `BLOCK` bytes at even distances, the first and the last block included. A change
    of the length is always noticed, a change of single bytes between the samples is not.

    Args:
        path: the file.
    """
    size = path.stat().st_size
    last = max(0, size - BLOCK)
    starts = range(0, size, BLOCK) if size <= SAMPLES * BLOCK else spread(last + 1, SAMPLES)
    digest = hashlib.sha256(f"{size}\n".encode())
    with path.open("rb") as file:
        for start in starts:
            file.seek(start)
            digest.update(file.read(BLOCK))
    return digest.hexdigest()


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` of the numbers 0 to count - 1, at even distances, the first and the last included.

    Args:
        count: the number of items to choose from.
        most: the number of items to choose, at least 2.
    """
    if count <= most:
        return list(range(count))
    return [(count - 1) * i // (most - 1) for i in range(most)]


def check_published(path: Path | str, md5: str, published: str) -> None:
    """Raise an error if a file is not the one that its publisher made.

    Args:
        path: the file, for the error message.
        md5: the md5 of the file.
        published: the md5 that the publisher gives.
    """
    if md5 != published:
        raise DepthlrError(
            f"{path} has md5 {md5}, but its publisher's has {published}: it is damaged or was changed; delete it and "
            "fetch it again."
        )


def check_recorded(folder: Path, name: str, sha256: str) -> None:
    """Raise an error if data changed since its first load. At the first load, record its digest.

    The record is written into the folder of the data, or into the cache if that folder is not writable.

    Args:
        folder: the folder of the data.
        name: the name of the data in the record, a file name or a pattern.
        sha256: the digest of the data.
    """
    records = (folder / RECORD, cache_folder() / "digests" / f"{_folder_key(folder)}.json")
    for record in records:
        if (before := _read_record(record).get(name)) is not None:
            if before != sha256:
                raise DepthlrError(
                    f"{folder / name} has sha256 {sha256}, but had {before} when it was first loaded: restore it, or "
                    f"delete {record} if the change is intended."
                )
            return
    for record in records:
        try:
            with replace_file(record) as file:
                digests = {**_read_record(record), name: sha256}
                file.write(json.dumps(digests, indent=2, sort_keys=True).encode() + b"\n")
            return
        except OSError:
            continue
    raise DepthlrError(
        f"The digest of {folder / name} can be written neither to {records[0]} nor to {records[1]}: set DEPTHLR_CACHE "
        "to a folder you can write to."
    )


def _folder_key(folder: Path) -> str:
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def _read_record(record: Path) -> dict[str, str]:
    if not record.exists():
        return {}
    with one_sentence_errors(f"{record} is no record of digests: delete it, and the next load writes a new one"):
        return dict(json.loads(record.read_bytes()).items())


@dataclass(frozen=True)
class LabelledFiles:
    """The files below `root`, sorted by path, with the class of each. Classes are sorted by name."""

    root: Path
    paths: tuple[str, ...]  # relative to the root, separated by /
    labels: tuple[int, ...]
    classes: tuple[str, ...]

    def digest(self) -> str:
        """Return the sha256 of all paths and contents."""
        digest = hashlib.sha256()
        for path in self.paths:
            digest.update(f"{path}\0{file_digest(self.root / path, 'sha256')}\n".encode())
        return digest.hexdigest()

    def sampled_digest(self) -> str:
        """Return the sha256 of all paths and sizes, and of the contents of `SAMPLED_FILES` files at even distances."""
        digest = hashlib.sha256()
        for path in self.paths:
            digest.update(f"{path}\0{(self.root / path).stat().st_size}\n".encode())
        for index in spread(len(self.paths), SAMPLED_FILES):
            digest.update(f"{file_digest(self.root / self.paths[index], 'sha256')}\n".encode())
        return digest.hexdigest()


def find_labelled_files(folder: Path, suffixes: Collection[str], split: str | None = None) -> LabelledFiles:
    """Find the files of a labelled data set in `folder/train`, or in `folder` if there is no `train`.

    The class of a file is its folder below the root. If all files lie in one folder, it is the start of the file name,
    up to the first underscore.

    Args:
        folder: the folder of the data set.
        suffixes: the file name endings to look for, in lower case.
        split: look in `folder/split` instead. The classes are those of `folder/train`.
    """
    if split is None:
        return _label_files(folder / "train" if (folder / "train").is_dir() else folder, suffixes)
    train = _label_files(folder / "train", suffixes)
    return _label_files(folder / split, suffixes, train.classes)


def _label_files(root: Path, suffixes: Collection[str], known: tuple[str, ...] = ()) -> LabelledFiles:
    """Find the files below `root`, whose classes are among the `known` ones if these are given.

    All files may lie in a single folder. It is a class if its name is known; else a file's name begins with its label.
    """
    paths = sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.suffix.lower() in suffixes)
    if not paths:
        raise DepthlrError(f"{root} holds no {'/'.join(suffixes)} files: name a folder that has one folder per class.")
    labels, _, _ = zip(*(path.partition("/") for path in paths), strict=True)
    if len({os.path.dirname(path) for path in paths}) == 1 and labels[0] not in known:
        labels, underscores, _ = zip(*(os.path.basename(path).partition("_") for path in paths), strict=True)
        if not all(underscores):
            raise DepthlrError(
                f"{root} has all its files in one folder, and some without a label: make one folder per class, or "
                "name each file LABEL_anything."
            )
    elif loose := [path for path in paths if "/" not in path]:
        raise DepthlrError(f"{root / loose[0]} lies beside the class folders: move it into one of them, or delete it.")
    classes = known or tuple(sorted(set(labels)))
    index = {label: number for number, label in enumerate(classes)}
    if unknown := sorted(set(labels) - set(classes)):
        raise DepthlrError(
            f"{root} has the class {unknown[0]!r}, which train does not have: give both the same class folders."
        )
    return LabelledFiles(root, tuple(paths), tuple(index[label] for label in labels), classes)


def read_members(path: Path, names: Sequence[str]) -> list[bytes]:
    """Read members of a `.tar.gz` into memory. Nothing is unpacked to disk.

    Args:
        path: the archive. Its publisher's digest was found right, since nothing else is checked.
        names: the names of the members to read.
    """
    found = {}
    with (
        one_sentence_errors(f"{path} cannot be read as a .tar.gz: delete it and fetch it again"),
        tarfile.open(path, "r|gz") as archive,
    ):
        for member in archive:
            if member.name in names and (file := archive.extractfile(member)):
                found[member.name] = file.read()
        return [found[name] for name in names]
