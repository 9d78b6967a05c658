"""One writer per file: a lock of the operating system, which ends with its process, even if that is killed."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from depthlr.errors import DepthlrError

RETRY_SECONDS = 0.05  # seconds


class Lock:
    """A lock that is held until `close`. The lock file names the process that holds it."""

    def __init__(self, study: Path, patience: float = 0.0) -> None:
        """Take the lock.

        Args:
            study: The study's file.
            patience: How many seconds to wait for another holder.
        """
        self._until = time.monotonic() + patience
        self._path = study.with_name(study.name + ".lock")
        while True:
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                self._take(study)
                if self._is_still_there():
                    break
            except BaseException:
                os.close(self._handle)
                raise
            os.close(self._handle)  # its last holder removed it between our opening and locking it
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"process {os.getpid()} on {socket.gethostname()}".encode())

    def close(self) -> None:
        """Removed while still held, so that nobody can hold the removed file and think it is the study's."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _take(self, study: Path) -> None:
        import fcntl  # Unix alone has it, and the rest of the package does not need it

        while True:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                if time.monotonic() > self._until:
                    holder = os.pread(self._handle, 200, 0).decode(errors="replace") or "another process"
                    raise DepthlrError(
                        f"{study} is being written by {holder}: wait until it ends, or stop it; what it finished is "
                        "kept."
                    ) from error
            time.sleep(RETRY_SECONDS)

    def _is_still_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(self._path))
        except FileNotFoundError:
            return False
