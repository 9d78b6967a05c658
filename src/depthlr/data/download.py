"""Fetching one file by HTTP: what was fetched before a break is kept, and what is wrong is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from depthlr.data.digests import file_digest
from depthlr.errors import DepthlrError

Progress = Callable[[int, int | None], None]
"""Called with the bytes fetched so far and, where the server says, the bytes in all."""

MAX_BYTES = 1 << 30
TIMEOUT = 30.0  # seconds without a byte


def download(url: str, path: Path, md5: str, *, progress: Progress | None = None, max_bytes: int = MAX_BYTES) -> None:
    """Fetch `url` to `path`; a `.part` beside it is continued, and takes its name once the md5 is right."""
    if not url.startswith(("https://", "http://")):  # urllib would also open file://
        raise DepthlrError(f"{url} is no address to fetch from: it must begin with https:// or http://.")
    if path.is_file() and file_digest(path, "md5") == md5:
        return
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _transfer(url, part, progress, max_bytes)
        found = file_digest(part, "md5")
        if found != md5:
            part.unlink()
            raise DepthlrError(
                f"{url} gave a file with md5 {found}, not {md5}: nothing was kept; try again, or another mirror."
            )
        os.replace(part, path)
    except OSError as error:
        raise DepthlrError(f"{path} cannot be written ({error}): name a folder you can write to.") from error


def _transfer(url: str, part: Path, progress: Progress | None, max_bytes: int) -> None:
    start = part.stat().st_size if part.exists() else 0
    response = _open(url, start)
    if response is None:
        return
    with response:
        resumed = response.status == 206
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            raise DepthlrError(f"{url} answered with another part than was asked for: delete {part} and try again.")
        done = start if resumed else 0
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        with part.open("ab" if resumed else "wb") as file:
            while chunk := _chunk(response):
                done += len(chunk)
                if done > max_bytes:
                    break
                file.write(chunk)
                if progress is not None:
                    progress(done, total)
    if done > max_bytes:
        part.unlink()
        raise DepthlrError(f"{url} gives more than {max_bytes} bytes: it is not the file it says; nothing was kept.")
    if total is not None and done < total:
        raise DepthlrError(f"{url} broke off after {done} of {total} bytes: run the same again to go on from there.")


def _open(url: str, start: int) -> HTTPResponse | None:
    """The answer from byte `start` on; None where the server has nothing behind it, so that all is here already."""
    headers = {"User-Agent": "depthlr", **({"Range": f"bytes={start}-"} if start else {})}
    try:
        response: HTTPResponse = urlopen(Request(url, headers=headers), timeout=TIMEOUT)
        return response
    except HTTPError as error:
        error.close()
        if error.code == 416 and start:
            return None
        raise DepthlrError(f"{url} answered {error.code} {error.reason}: check the address, or try later.") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise DepthlrError(f"{url} cannot be reached ({reason}): check the address and the network.") from error


def _chunk(response: HTTPResponse) -> bytes:
    """The next bytes, or none where the transfer ended or broke: the count of bytes tells which."""
    try:
        return response.read(1 << 16)
    except (OSError, HTTPException):
        return b""
