"""CIFAR-10 and CIFAR-100, training and test images, in the binary or the Python version, unpacked or in an archive."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from depthlr import check
from depthlr.data.files import check_published, check_recorded, file_digest, read_members
from depthlr.data.sets import DataSet
from depthlr.errors import DepthlrError, one_sentence_errors

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
    check.one_of(f"{cifar.name}'s split", split, ("train", "test"))
    layout, path = _find_layout(cifar, folder)
    names = layout.files if split == "train" else (layout.test_file,)
    contents = _read_files(layout, path, names)
    parse = _parse_pickle if layout.pickled else _parse_rows
    with one_sentence_errors(f"{', '.join(names)} in {path} cannot be read: fetch {cifar.name} again"):
        labels, pixels = zip(*(parse(cifar, content) for content in contents), strict=True)
    data = DataSet.from_tensors(
        cifar.name,
        torch.from_numpy(np.concatenate(pixels)).view(-1, 3, 32, 32),
        torch.from_numpy(np.concatenate(labels)).to(torch.int64),
        cifar.classes,
        CIFAR_ATTRIBUTION,
    )
    for name, content in zip(names, contents, strict=True):
        if path.is_dir() and name not in layout.md5:  # last, so that the digest of an unreadable file is not recorded
            check_recorded(path, name, hashlib.sha256(content).hexdigest())
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


def _read_files(layout: Layout, path: Path, names: tuple[str, ...]) -> list[bytes]:
    """Read these files of a folder or an archive, and verify those that have a published digest."""
    if path.is_file():
        check_published(path, file_digest(path, "md5"), layout.md5[layout.archive])
        return read_members(path, [f"{layout.folder}/{name}" for name in names])
    contents = [(path / name).read_bytes() for name in names]
    for name, content in zip(names, contents, strict=True):
        if name in layout.md5:
            check_published(path / name, hashlib.md5(content).hexdigest(), layout.md5[name])
    return contents


def _parse_rows(cifar: Cifar, content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the labels (N,) and the pixels (N, 3072) of a binary file."""
    rows = np.frombuffer(content, np.uint8).reshape(-1, cifar.label_bytes + PIXELS)
    return rows[:, cifar.label_bytes - 1], rows[:, cifar.label_bytes :]


def _parse_pickle(cifar: Cifar, content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the labels (N,) and the pixels (N, 3072) of a file of the Python version, written by Python 2.

    A pickle can run code. All of these have a published digest, and this one has it.
    """
    batch = pickle.loads(content, encoding="latin-1")
    return np.array(batch[cifar.label_key], np.uint8), batch["data"]
