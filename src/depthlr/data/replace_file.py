"""Writing a file whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


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
