"""Tiny data sets in their publishers' own formats."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import struct
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from depthlr.data.cifar import Cifar, Layout


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def examples(count: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels (count,) and pixels (count, 3072)."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(classes, size=count, dtype=np.uint8)
    return labels, generator.integers(256, size=(count, 3072), dtype=np.uint8)


def binary_rows(labels: np.ndarray, pixels: np.ndarray, label_bytes: int) -> bytes:
    coarse = [(labels // 5)[:, None]] * (label_bytes - 1)
    return np.concatenate([*coarse, labels[:, None], pixels], axis=1).tobytes()


def text2(text: str | bytes) -> bytes:
    """A Python 2 str in pickle protocol 2."""
    content = text.encode("latin-1") if isinstance(text, str) else text
    if len(content) < 256:
        return pickle.SHORT_BINSTRING + bytes([len(content)]) + content
    return pickle.BINSTRING + struct.pack("<i", len(content)) + content


def number(value: int) -> bytes:
    return pickle.BININT + struct.pack("<i", value)


def python2_pickle(labels: np.ndarray, pixels: np.ndarray, label_key: str) -> bytes:
    """A batch as Python 2's cPickle wrote it: str for text and for bytes, and numpy's own way to pickle an array."""
    rows, columns = pixels.shape
    array = [
        pickle.GLOBAL + b"numpy.core.multiarray\n_reconstruct\n" + pickle.GLOBAL + b"numpy\nndarray\n",
        number(0) + pickle.TUPLE1 + text2("b") + pickle.TUPLE3 + pickle.REDUCE + pickle.BINPUT + b"\x07",
        pickle.MARK + number(1) + number(rows) + number(columns) + pickle.TUPLE2,
        pickle.GLOBAL + b"numpy\ndtype\n" + text2("u1") + number(0) + number(1) + pickle.TUPLE3 + pickle.REDUCE,
        pickle.LONG_BINPUT + struct.pack("<i", 300),
        pickle.MARK + number(3) + text2("|") + pickle.NONE * 3 + number(-1) * 2 + number(0) + pickle.TUPLE,
        pickle.BUILD + pickle.NEWFALSE + text2(pixels.tobytes()) + pickle.TUPLE + pickle.BUILD,
    ]
    numbers = b"".join(pickle.BININT1 + bytes([label]) for label in labels.tolist())
    return b"".join(
        [
            pickle.PROTO + b"\x02" + pickle.EMPTY_DICT + pickle.BINPUT + b"\x01" + pickle.MARK,
            text2("batch_label") + text2("training batch 1 of 5"),
            text2(label_key) + pickle.EMPTY_LIST + pickle.MARK + numbers + pickle.APPENDS,
            text2("data") + b"".join(array),
            text2("filenames") + pickle.EMPTY_LIST + pickle.SETITEMS + pickle.STOP,
        ]
    )


def tar_gz(members: Mapping[str, bytes], *extra: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for info in extra:
            tar.addfile(info)
    return gzip.compress(buffer.getvalue(), mtime=0)


def contents(cifar: Cifar, layout: Layout, count: int = 4) -> dict[str, bytes]:
    """The files of a layout, `count` images each, the test file last."""
    found = {}
    for seed, name in enumerate((*layout.files, layout.test_file)):
        labels, pixels = examples(count, cifar.classes, seed)
        found[name] = (
            python2_pickle(labels, pixels, cifar.label_key)
            if layout.pickled
            else binary_rows(labels, pixels, cifar.label_bytes)
        )
    return found


def publish(cifar: Cifar, index: int, folder: Path, *, archived: bool) -> Cifar:
    """Write a tiny copy of one layout; returns the data set whose published digests are the copy's."""
    layout = cifar.layouts[index]
    files = contents(cifar, layout)
    archive = tar_gz({f"{layout.folder}/{name}": content for name, content in files.items()})
    if archived:
        (folder / layout.archive).write_bytes(archive)
    else:
        (folder / layout.folder).mkdir(parents=True)
        for name, content in files.items():
            (folder / layout.folder / name).write_bytes(content)
    known = {layout.archive: archive, **files}
    digests = {name: md5(known[name]) for name in layout.md5 if name in known}
    layouts = list(cifar.layouts)
    layouts[index] = replace(layout, md5=digests)
    return replace(cifar, layouts=tuple(layouts))


def expected(cifar: Cifar, layout: Layout, count: int = 4, *, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Labels and pixels of a split that `contents` holds, in order."""
    training = len(layout.files)
    seeds = range(training) if split == "train" else [training]
    parts = [examples(count, cifar.classes, seed) for seed in seeds]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
