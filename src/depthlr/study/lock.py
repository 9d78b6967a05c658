"""One writer per file: a lock of the operating system, which ends with its process, even if that is killed."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from depthlr.errors import DepthlrError

RETRY_SECONDS = 0.05


@contextlib.contextmanager
def lock(study: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold a study's lock. The lock file names the process that holds it.

    Args:
        study: The study's file.
        patience: How many seconds to wait for another holder.
    """
    path, until = study.with_name(study.name + ".lock"), time.monotonic() + patience
    with contextlib.ExitStack() as stack:
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            stack.callback(os.close, handle)
            _acquire(handle, study, until)
            if _is_still_there(handle, path):
                break
            stack.close()  # its last holder removed it between our opening and locking it
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
        try:
            yield
        finally:  # removed while still held, so that nobody can hold the removed file and think it is the study's
            with contextlib.suppress(OSError):
                path.unlink()


def _acquire(handle: int, study: Path, until: float) -> None:
    import fcntl  # Unix alone has it, and the rest of the package does not need it

    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > until:
                holder = os.pread(handle, 200, 0).decode(errors="replace") or "another process"
                raise DepthlrError(
                    f"{study} is being written by {holder}: wait until it ends, or stop it; what it finished is kept."
                ) from error
        time.sleep(RETRY_SECONDS)


def _is_still_there(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
