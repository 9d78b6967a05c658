"""CIFAR's training images, from the binary or the Python version, unpacked or in their archive."""

from __future__ import annotations

import hashlib
import math
import pickletools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from depthlr.data.files import check_published, check_recorded, file_digest, read_members
from depthlr.data.sets import DataSet
from depthlr.errors import DepthlrError

PUBLISHER = "https://www.cs.toronto.edu/~kriz"
ATTRIBUTION = (
    "A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009 (www.cs.toronto.edu/~kriz/cifar.html); "
    "no licence is stated: cite the report"
)


@dataclass(frozen=True)
class Layout:
    """One way the training images are published: an archive that unpacks to a folder of files."""

    archive: str
    folder: str
    files: tuple[str, ...]
    pickled: bool
    md5: Mapping[str, str]  # of the archive, and of those files whose digest is known


@dataclass(frozen=True)
class Cifar:
    """A data set and its layouts, the one to prefer first."""

    name: str
    classes: int
    label_bytes: int  # before each image of a binary file; the last of them counts
    label_key: str  # of a pickled file
    layouts: tuple[Layout, ...]


CIFAR10_BINARY = Layout(
    archive="cifar-10-binary.tar.gz",
    folder="cifar-10-batches-bin",
    files=tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
    pickled=False,
    md5={
        "cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530",
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    },
)
CIFAR10 = Cifar(
    name="cifar10",
    classes=10,
    label_bytes=1,
    label_key="labels",
    layouts=(
        CIFAR10_BINARY,
        Layout(
            archive="cifar-10-python.tar.gz",
            folder="cifar-10-batches-py",
            files=tuple(f"data_batch_{i}" for i in range(1, 6)),
            pickled=True,
            md5={
                "cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a",
                "data_batch_1": "c99cafc152244af753f735de768cd75f",
                "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                "data_batch_4": "634d18415352ddfa80567beed471001a",
                "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            },
        ),
    ),
)
CIFAR100 = Cifar(
    name="cifar100",
    classes=100,
    label_bytes=2,  # coarse, fine
    label_key="fine_labels",
    layouts=(
        Layout(
            archive="cifar-100-binary.tar.gz",
            folder="cifar-100-binary",
            files=("train.bin",),
            pickled=False,
            md5={"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"},
        ),
        Layout(
            archive="cifar-100-python.tar.gz",
            folder="cifar-100-python",
            files=("train",),
            pickled=True,
            md5={
                "cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85",
                "train": "16019d7e3df5f24257cddd939b257f8d",
            },
        ),
    ),
)


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


T = TypeVar("T")
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = {"BININT", "BININT1", "BININT2", "INT", "LONG1", "BINFLOAT", "SHORT_BINSTRING", "BINSTRING", "BINUNICODE"}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_NAMES = {"numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"}


@dataclass(frozen=True)
class _Name:
    """A global the pickle mentions: a word, nothing to call."""

    text: str


@dataclass
class _Array:
    """An array of bytes that is being put together."""

    value: np.ndarray[Any, np.dtype[np.uint8]] | None = None


_BYTES_DTYPE = _Name("uint8")


def read_pickled_dict(content: bytes, origin: str) -> dict[Any, Any]:
    """The dict in a pickle, its arrays as numpy arrays; strings of Python 2 are read as latin-1."""
    try:
        found = _run(content)
        if not isinstance(found, dict):
            raise ValueError("it holds no dict")
        return {key: _finished(value) for key, value in found.items()}
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise DepthlrError(
            f"{origin} is no pickle of plain data as CIFAR's are ({error}): nothing in it was run; fetch it again."
        ) from error


def _finished(value: Any) -> Any:
    if not isinstance(value, _Array):
        return value
    if value.value is None:
        raise ValueError("an array has no content")
    return value.value


def _run(content: bytes) -> Any:
    stack: list[Any] = []
    outer: list[list[Any]] = []  # the stacks below each mark
    memo: dict[Any, Any] = {}
    for opcode, argument, _ in pickletools.genops(content):
        name = opcode.name
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "MARK":
            outer.append(stack)
            stack = []
        elif name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if name == "EMPTY_DICT" else [])
        elif name in _TUPLES:
            stack.append(tuple(_popped(stack, _TUPLES[name])))
        elif name == "TUPLE":
            items, stack = stack, outer.pop()
            stack.append(tuple(items))
        elif name == "APPEND":
            items = _popped(stack, 1)
            _expect(stack[-1], list).extend(items)
        elif name == "APPENDS":
            items, stack = stack, outer.pop()
            _expect(stack[-1], list).extend(items)
        elif name == "SETITEM":
            items = _popped(stack, 2)
            _set_items(_expect(stack[-1], dict), items)
        elif name == "SETITEMS":
            items, stack = stack, outer.pop()
            _set_items(_expect(stack[-1], dict), items)
        elif name == "GLOBAL":
            if argument not in _NAMES:
                raise ValueError(f"it names {str(argument).replace(' ', '.')!r}")
            stack.append(_Name(str(argument)))
        elif name == "REDUCE":
            stack.append(_reduced(*_popped(stack, 2)))
        elif name == "BUILD":
            (state,) = _popped(stack, 1)
            _build(stack[-1], state)
        elif name == "STOP":
            return stack.pop()
        elif name != "PROTO":
            raise ValueError(f"it uses {name}")
    raise ValueError("it has no end")


def _popped(stack: list[Any], count: int) -> list[Any]:
    if len(stack) < count:
        raise IndexError("its stack is empty")
    items = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return items


def _expect(value: Any, kind: type[T]) -> T:
    if type(value) is not kind:
        raise TypeError(f"a {kind.__name__} was expected")
    return value


def _set_items(target: dict[Any, Any], items: list[Any]) -> None:
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, str | int):  # a key that holds others can take for ever to hash
            raise TypeError("a key is neither a string nor a number")
        target[key] = value


def _reduced(called: Any, arguments: Any) -> Any:
    """What numpy's two calls mean, said by us: an empty array, and the dtype of bytes."""
    if called == _Name("numpy.core.multiarray _reconstruct") and arguments == (_Name("numpy ndarray"), (0,), "b"):
        return _Array()
    if called == _Name("numpy dtype") and arguments == ("u1", 0, 1):
        return _BYTES_DTYPE
    raise ValueError("it makes something else than an array of bytes")


def _build(target: Any, state: Any) -> None:
    if target is _BYTES_DTYPE:
        return  # byte order and alignment, which bytes do not have
    if not isinstance(target, _Array):
        raise TypeError("it sets the state of something else than an array")
    _, shape, dtype, fortran, content = state
    if dtype is not _BYTES_DTYPE or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("an array is not of bytes")
    flat = np.frombuffer(_expect(content, str).encode("latin-1"), np.uint8)
    if math.prod(shape) != len(flat):
        raise ValueError(f"an array of shape {shape} holds {len(flat)} bytes")
    target.value = flat.reshape(shape, order="F" if fortran else "C")
