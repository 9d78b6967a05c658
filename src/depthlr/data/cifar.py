"""CIFAR's training images, from the binary or the Python version, unpacked or in their archive."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from depthlr.data.archive import read_members
from depthlr.data.cifar_layout import ATTRIBUTION, PUBLISHER, Cifar, Layout
from depthlr.data.dataset import DataSet
from depthlr.data.digests import check_published, check_recorded, file_digest
from depthlr.data.pickled import read_pickled_dict
from depthlr.errors import DepthlrError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
PIXELS = 3 * 32 * 32


def load_cifar(cifar: Cifar, folder: Path) -> DataSet:
    """The training images in their published order, uint8 (N, 3, 32, 32); every file is checked before it is used."""
    layout, place = _find(cifar, folder)
    labels, pixels, unpublished = [], [], {}
    for name, content in _contents(layout, place):
        origin = place / name if place.is_dir() else f"{name} in {place}"
        part = _parsed_pickle(cifar, origin, content) if layout.pickled else _parsed_rows(cifar, origin, content)
        labels.append(part[0])
        pixels.append(part[1])
        if place.is_dir() and name not in layout.md5:
            unpublished[name] = hashlib.sha256(content).hexdigest()
    data = DataSet.of(
        cifar.name,
        torch.from_numpy(np.concatenate(pixels)).view(-1, 3, 32, 32),
        torch.from_numpy(np.concatenate(labels)).to(torch.int64),
        cifar.classes,
        ATTRIBUTION,
    )
    for name, sha256 in unpublished.items():  # last: a file that cannot be read is not worth remembering
        check_recorded(place, name, sha256)
    return data


def _find(cifar: Cifar, folder: Path) -> tuple[Layout, Path]:
    """The first layout the folder holds, as a folder of files or as an archive."""
    for layout in cifar.layouts:
        for place in (folder / layout.folder, folder):
            present = [name for name in layout.files if (place / name).is_file()]
            if len(present) == len(layout.files):
                return layout, place
            if present:
                lacking = ", ".join(name for name in layout.files if name not in present)
                raise DepthlrError(f"{place} lacks {lacking}: fetch {cifar.name} again.")
        if (folder / layout.archive).is_file():
            return layout, folder / layout.archive
    layout = cifar.layouts[0]
    raise DepthlrError(
        f"{folder} holds no {cifar.name}: put {layout.archive} of {PUBLISHER}/cifar.html there, or its folder "
        f"{layout.folder}, or run depthlr data {cifar.name} --download --folder {folder}."
    )


def _contents(layout: Layout, place: Path) -> Iterator[tuple[str, bytes]]:
    """The training files, named, in order, and as their publisher made them where that can be told."""
    if place.is_dir():
        for name in layout.files:
            content = _read(place / name)
            if name in layout.md5:
                check_published(place / name, hashlib.md5(content).hexdigest(), layout.md5[name])
            yield name, content
        return
    check_published(place, file_digest(place, "md5"), layout.md5[layout.archive])
    found = dict(read_members(place, [f"{layout.folder}/{name}" for name in layout.files]))
    for name in layout.files:
        yield name, found.pop(f"{layout.folder}/{name}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DepthlrError(f"{path} cannot be read ({error.strerror}): check that it is a readable file.") from error


def _parsed_rows(cifar: Cifar, origin: Path | str, content: bytes) -> tuple[Bytes, Bytes]:
    """Labels (N,) and pixels (N, 3072) of a binary file."""
    row = cifar.label_bytes + PIXELS
    if not content or len(content) % row:
        raise DepthlrError(f"{origin} has {len(content)} bytes, which are no rows of {row}: fetch {cifar.name} again.")
    rows = np.frombuffer(content, np.uint8).reshape(-1, row)
    return rows[:, cifar.label_bytes - 1], rows[:, cifar.label_bytes :]


def _parsed_pickle(cifar: Cifar, origin: Path | str, content: bytes) -> tuple[Bytes, Bytes]:
    """The same of a file of the Python version."""
    batch = read_pickled_dict(content, str(origin))
    labels, pixels = batch.get(cifar.label_key), batch.get("data")
    right = (
        isinstance(labels, list)
        and all(type(label) is int and 0 <= label < 256 for label in labels)
        and isinstance(pixels, np.ndarray)
        and pixels.shape == (len(labels), PIXELS)
    )
    if not right:
        raise DepthlrError(
            f"{origin} lacks {cifar.label_key!r} and 'data' as {cifar.name} has them: fetch {cifar.name} again."
        )
    return np.array(labels, np.uint8), np.asarray(pixels)
