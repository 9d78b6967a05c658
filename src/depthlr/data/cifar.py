"""CIFAR-10 and CIFAR-100, training and test images, in the binary or the Python version, unpacked or in an archive."""

from __future__ import annotations

import hashlib
import io
import math
import pickle
import pickletools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from depthlr.data.files import check_published, check_recorded, file_digest, read_members
from depthlr.data.sets import DataSet
from depthlr.errors import DepthlrError

PIXELS = 3 * 32 * 32

PUBLISHER = "https://www.cs.toronto.edu/~kriz"
CIFAR_ATTRIBUTION = (
    "A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009 (www.cs.toronto.edu/~kriz/cifar.html); "
    "no licence is stated: cite the report"
)


@dataclass(frozen=True)
class Layout:
    """A form in which the images are published: an archive with one folder of files."""

    archive: str
    folder: str
    files: tuple[str, ...]  # of the training images
    test_file: str
    pickled: bool
    md5: Mapping[str, str]  # of the archive, and of the files whose digest is published


@dataclass(frozen=True)
class Cifar:
    """A data set and its layouts; the first one found is used."""

    name: str
    classes: int
    label_bytes: int  # before each image of a binary file; the last byte is the label
    label_key: str  # the key of the labels in a pickled file
    layouts: tuple[Layout, ...]


def _layout(
    archive: str, folder: str, files: tuple[str, ...], test_file: str, digests: str, *, pickled: bool = False
) -> Layout:
    """A layout with its published md5 digests: of the archive, the training files and the test file, in this order."""
    md5 = dict(zip((archive, *files, test_file), digests.split(), strict=False))  # some digests are not published
    return Layout(archive, folder, files, test_file, pickled, md5)


CIFAR10_BINARY = _layout(
    "cifar-10-binary.tar.gz",
    "cifar-10-batches-bin",
    tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
    "test_batch.bin",
    "c32a1d4ab5d03f1284b67883e8d87530 5dd7e06a14cb22eb9f671a540d1b7c25 5ea93a67294ea407fff1d09f752e9692 "
    "942cd6a4bcdd0dd3c604fbe906cb4421 ae636b3ba5c66a11e91e8cb52e771fcb 53f37980c15c3d472c316c40844f3f0d "
    "803d5f7f4d78ea53de84dbe85f74fb6d",
)
CIFAR10_PYTHON = _layout(
    "cifar-10-python.tar.gz",
    "cifar-10-batches-py",
    tuple(f"data_batch_{i}" for i in range(1, 6)),
    "test_batch",
    "c58f30108f718f92721af3b95e74349a c99cafc152244af753f735de768cd75f d4bba439e000b95fd0a9bffe97cbabec "
    "54ebc095f3ab1f0389bbae665268c751 634d18415352ddfa80567beed471001a 482c414d41f54cd18b22e5b47cb7c3cb "
    "40351d587109b95175f43aff81a1287e",
    pickled=True,
)
CIFAR100_BINARY = _layout(
    "cifar-100-binary.tar.gz", "cifar-100-binary", ("train.bin",), "test.bin", "03b5dce01913d631647c71ecec9e9cb8"
)
CIFAR100_PYTHON = _layout(
    "cifar-100-python.tar.gz",
    "cifar-100-python",
    ("train",),
    "test",
    "eb9058c3a382ffc7106e4002c42a8d85 16019d7e3df5f24257cddd939b257f8d f0ef6b0ae62326f3e7ffdfab6717acfc",
    pickled=True,
)
CIFAR10 = Cifar("cifar10", 10, 1, "labels", (CIFAR10_BINARY, CIFAR10_PYTHON))
CIFAR100 = Cifar("cifar100", 100, 2, "fine_labels", (CIFAR100_BINARY, CIFAR100_PYTHON))  # bytes: coarse, fine


def load_cifar(cifar: Cifar, folder: Path, split: str = "train") -> DataSet:
    """Load the images of a split, uint8 (N, 3, 32, 32), in their published order. Every file is verified first.

    Args:
        cifar: which data set, `CIFAR10` or `CIFAR100`.
        folder: the folder that holds an archive, its unpacked folder, or the files themselves.
        split: `train` or `test`.
    """
    if split not in {"train", "test"}:
        raise DepthlrError(f"{cifar.name} has the splits train and test, not {split!r}: choose one of them.")
    layout, path = _find_layout(cifar, folder)
    parse = _parse_pickle if layout.pickled else _parse_rows
    labels, pixels, unpublished = [], [], {}
    for name, content in _read_files(layout, path, layout.files if split == "train" else (layout.test_file,)):
        file_labels, file_pixels = parse(cifar, path / name if path.is_dir() else f"{name} in {path}", content)
        labels.append(file_labels)
        pixels.append(file_pixels)
        if path.is_dir() and name not in layout.md5:
            unpublished[name] = hashlib.sha256(content).hexdigest()
    data = DataSet.from_tensors(
        cifar.name,
        torch.from_numpy(np.concatenate(pixels)).view(-1, 3, 32, 32),
        torch.from_numpy(np.concatenate(labels)).to(torch.int64),
        cifar.classes,
        CIFAR_ATTRIBUTION,
    )
    for name, sha256 in unpublished.items():  # last, so that the digest of an unreadable file is not recorded
        check_recorded(path, name, sha256)
    return data


def _find_layout(cifar: Cifar, folder: Path) -> tuple[Layout, Path]:
    """Find the first layout that the folder holds, and the folder or archive of its files."""
    for layout in cifar.layouts:
        for path in (folder / layout.folder, folder):
            missing = [name for name in layout.files if not (path / name).is_file()]
            if not missing:
                return layout, path
            if len(missing) < len(layout.files):
                raise DepthlrError(f"{path} lacks {', '.join(missing)}: fetch {cifar.name} again.")
        if (folder / layout.archive).is_file():
            return layout, folder / layout.archive
    layout = cifar.layouts[0]
    raise DepthlrError(
        f"{folder} holds no {cifar.name}: put {layout.archive} of {PUBLISHER}/cifar.html there, or its folder "
        f"{layout.folder}, or run depthlr data {cifar.name} --download --folder {folder}."
    )


def _read_files(layout: Layout, path: Path, names: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Read these files of a folder or an archive, with their names, and verify those that have a published digest."""
    if path.is_dir():
        for name in names:
            if not (path / name).exists():
                raise DepthlrError(f"{path} lacks {name}: fetch the data set again.")
            content = (path / name).read_bytes()
            if name in layout.md5:
                check_published(path / name, hashlib.md5(content).hexdigest(), layout.md5[name])
            yield name, content
        return
    check_published(path, file_digest(path, "md5"), layout.md5[layout.archive])
    found = dict(read_members(path, [f"{layout.folder}/{name}" for name in names]))
    for name in names:
        yield name, found.pop(f"{layout.folder}/{name}")


def _parse_rows(cifar: Cifar, origin: Path | str, content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the labels (N,) and the pixels (N, 3072) of a binary file."""
    row = cifar.label_bytes + PIXELS
    if not content or len(content) % row:
        raise DepthlrError(f"{origin} has {len(content)} bytes, not a multiple of {row}: fetch {cifar.name} again.")
    rows = np.frombuffer(content, np.uint8).reshape(-1, row)
    return rows[:, cifar.label_bytes - 1], rows[:, cifar.label_bytes :]


def _parse_pickle(cifar: Cifar, origin: Path | str, content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the labels (N,) and the pixels (N, 3072) of a file of the Python version."""
    batch = read_pickled_dict(content, str(origin))
    labels, pixels = batch.get(cifar.label_key), batch.get("data")
    valid = (
        isinstance(labels, list)
        and all(type(label) is int and 0 <= label < 256 for label in labels)
        and isinstance(pixels, np.ndarray)
        and pixels.shape == (len(labels), PIXELS)
    )
    if not valid:
        raise DepthlrError(
            f"{origin} lacks {cifar.label_key!r} and 'data' as {cifar.name} has them: fetch {cifar.name} again."
        )
    return np.array(labels, np.uint8), np.asarray(pixels)


def read_pickled_dict(content: bytes, origin: str) -> dict[Any, Any]:
    """Read the dict in a pickle of protocol 0 to 2 without importing or calling what the pickle names.

    Args:
        content: the bytes of the file.
        origin: where the bytes come from, for the error message.

    Returns:
        The dict. An array of bytes becomes a numpy array, a string of Python 2 is read as latin-1.
    """
    try:
        found = _Unpickler(io.BytesIO(content), encoding="latin-1").load()
        if not isinstance(found, dict):
            raise ValueError("it holds no dict")
        return {key: _plain_value(value) for key, value in found.items()}
    except Exception as error:  # wrong bytes make an unpickler raise nearly anything
        raise DepthlrError(
            f"{origin} is no pickle of plain data, as CIFAR's are ({error}): nothing in it was run; fetch it again."
        ) from error


class _ByteArray:
    """Replaces numpy's `_reconstruct` while a pickle is read: an array of bytes, filled by `__setstate__`."""

    content: NDArray[np.uint8] | None = None

    def __init__(self, *arguments: Any) -> None:
        if arguments != ("ndarray", (0,), "b"):
            raise ValueError("it holds an object that is no array of bytes")

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, content = state
        if not isinstance(dtype, _ByteType) or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError("an array is not of bytes")
        flat = np.frombuffer(content.encode("latin-1"), np.uint8)
        if math.prod(shape) != len(flat):
            raise ValueError(f"an array of shape {shape} holds {len(flat)} bytes")
        self.content = flat.reshape(shape, order="F" if fortran else "C")


def _plain_value(value: Any) -> Any:
    if not isinstance(value, _ByteArray):
        return value
    if value.content is None:
        raise ValueError("an array has no content")
    return value.content


class _ByteType:
    """Replaces numpy's `dtype` while a pickle is read: bytes and nothing else."""

    def __init__(self, *arguments: Any) -> None:
        if arguments != ("u1", 0, 1):
            raise ValueError("it holds an object that is no array of bytes")

    def __setstate__(self, state: Any) -> None:
        """Ignore byte order and alignment, which bytes do not have."""


class _Unpickler(pickle._Unpickler):
    """The standard library's unpickler, restricted to three names and to the opcodes that Python 2 wrote.

    `pickle.Unpickler`, written in C, allocates as much memory as a number in the file says. The one in Python does not
    for these opcodes.
    """

    REPLACEMENTS: ClassVar[dict[tuple[str, str], object]] = {
        ("numpy.core.multiarray", "_reconstruct"): _ByteArray,
        ("numpy", "dtype"): _ByteType,
        ("numpy", "ndarray"): "ndarray",
    }
    dispatch: ClassVar[dict[int, Any]] = {
        ord(opcode.code): pickle._Unpickler.dispatch[ord(opcode.code)]
        for opcode in pickletools.opcodes
        if opcode.proto <= 2
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.REPLACEMENTS:
            raise ValueError(f"it names '{module}.{name}'")
        return self.REPLACEMENTS[module, name]
