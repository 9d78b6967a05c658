"""Reading members out of a .tar.gz without unpacking it: nothing an archive says is ever written to disk."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from depthlr.errors import DepthlrError

MAX_MEMBERS = 1_000
MAX_BYTES = 1 << 30  # of the whole archive, unpacked; CIFAR's are about 180 MB


def read_members(
    path: Path, wanted: Collection[str], *, max_bytes: int = MAX_BYTES, max_members: int = MAX_MEMBERS
) -> Iterator[tuple[str, bytes]]:
    """Each wanted member and its bytes, in the archive's order; the archive is read, and checked, to its end."""
    missing = set(wanted)
    try:
        with gzip.open(path) as unpacked:
            stream = _Capped(unpacked, path, max_bytes)
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                for count, member in enumerate(tar, 1):
                    if count > max_members:
                        raise DepthlrError(f"{path} has more than {max_members} members: it is not what it says.")
                    _refuse_hostile(path, member, max_bytes)
                    if member.name in missing and member.isreg():
                        missing.remove(member.name)
                        yield member.name, _content(tar, member)
            while stream.read(1 << 20):  # gzip checks its sum at the very end
                pass
    except DepthlrError:
        raise
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, ArithmeticError, LookupError) as error:
        # tarfile raises the last three, where a header's numbers or a map of holes make no sense.
        raise DepthlrError(f"{path} cannot be read as a .tar.gz ({error}): delete it and fetch it again.") from error
    if missing:
        raise DepthlrError(f"{path} lacks {', '.join(sorted(missing))}: delete it and fetch it again.")


def _refuse_hostile(path: Path, member: tarfile.TarInfo, max_bytes: int) -> None:
    """A data set is plain files in folders; anything else is somebody's trick."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise DepthlrError(f"{path} has a member that points outside it ({member.name!r}): do not use this archive.")
    if not (member.isdir() or member.type in (tarfile.REGTYPE, tarfile.AREGTYPE)) or member.issparse():
        raise DepthlrError(f"{path} has a member that is no plain file ({member.name!r}): do not use this archive.")
    if not 0 <= member.size <= max_bytes:  # before a buffer of that size is asked for
        raise DepthlrError(f"{path} has a member of {member.size} bytes ({member.name!r}): do not use this archive.")


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    content = b"" if file is None else file.read(member.size)
    if len(content) != member.size:
        raise EOFError(f"{member.name} ends early")
    return content


class _Capped(io.RawIOBase):
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
