"""The data sets by name, and `load`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from depthlr import check
from depthlr.data.audio import load_wav
from depthlr.data.cifar import CIFAR10, CIFAR100, Layout, load_cifar
from depthlr.data.digits import load_digits
from depthlr.data.examples import Examples
from depthlr.data.files import cache_folder
from depthlr.data.images import ImageFiles, load_images
from depthlr.data.sets import DataSet, load_from_callable
from depthlr.data.text import load_text
from depthlr.data.tokens import load_tokens
from depthlr.errors import DepthlrError
from depthlr.python_name import is_python_name
from depthlr.spec_text import split_spec, unquote


@dataclass(frozen=True)
class Source:
    """How to read a data set from a folder, and where it can be downloaded."""

    read: Callable[..., Examples]  # takes the folder, then the options by name, and `split` if it has splits
    needs_folder: bool = False  # otherwise the default is depthlr's own data folder
    published: Layout | None = None  # the archive that --download fetches
    on_npm: bool = False

    @property
    def defaults(self) -> dict[str, Any]:
        """The options by name, with their defaults, which tell their types."""
        _, *options = signature(self.read).parameters.values()
        return {option.name: option.default for option in options}


SOURCES: dict[str, Source] = {
    "digits": Source(lambda folder: load_digits()),
    "cifar10": Source(partial(load_cifar, CIFAR10), published=CIFAR10.layouts[0], on_npm=True),
    "cifar100": Source(partial(load_cifar, CIFAR100), published=CIFAR100.layouts[0]),
    "images": Source(load_images, needs_folder=True),
    "wav": Source(load_wav, needs_folder=True),
    "tokens": Source(load_tokens, needs_folder=True),
    "text": Source(load_text, needs_folder=True),
}


def load(
    name: str, folder: Path | str | None = None, *, split: str | None = None, **options: int | str | Path
) -> Examples:
    """Load and verify a data set.

    Args:
        name: one of `SOURCES`, or `package.module:callable`. Options may follow: `images?size=32`.
        folder: where the data lies; by default depthlr's own data folder.
        split: the part to load, such as "test"; by default the part to train on. A callable gets it as an argument.
        **options: options by name. They replace those in `name`.
    """
    return _load(name, folder, None, options) if split is None else load_parts(name, split, folder, **options)[1]


def load_parts(
    name: str, split: str, folder: Path | str | None = None, **options: int | str | Path
) -> tuple[Examples, Examples]:
    """Load and verify the part of a data set to train on, and another part, normalized like the first one.

    Args:
        name: as `load` takes it.
        split: the other part, such as "test".
        folder: where the data lies; by default depthlr's own data folder.
        **options: options by name. They replace those in `name`.
    """
    other = _load(name, folder, split, options)
    train = _load(name, folder, None, options)
    if isinstance(train, DataSet | ImageFiles) and isinstance(other, DataSet | ImageFiles):
        other = replace(other, mean=train.mean, std=train.std)
    return train, other


def _load(name: str, folder: Path | str | None, split: str | None, options: Mapping[str, int | str | Path]) -> Examples:
    name, written = parse_name(name)
    given = {**written, **options}
    part = {} if split is None else {"split": split}
    if is_python_name(name):
        if folder is not None:
            given["folder"] = str(folder)
        return load_from_callable(name, given | part)
    source = source_of(name)
    defaults = source.defaults
    if part and "split" not in defaults:
        raise DepthlrError(f"{name} has no split {split!r}: hold out a share of it, such as 0.1.")
    if folder is None and source.needs_folder:
        raise DepthlrError(
            f"{name} reads your own folder: name it, as in depthlr data {name} --folder FOLDER, or as data.folder of a "
            "study."
        )
    parsed = {}
    defaults.pop("split", None)
    for key, value in given.items():
        if key not in defaults:
            raise DepthlrError(f"{name} has no option {key!r}: it takes {', '.join(defaults) or 'no options'}.")
        parsed[key] = _parse_option(f"{name}?{key}", str(value), defaults[key])
    path = data_folder() if folder is None else Path(folder).expanduser()
    try:
        return source.read(path, **parsed, **part)
    except OSError as error:
        raise DepthlrError(f"{name} cannot be read from {path} ({error}): check the folder.") from error


def _parse_option(what: str, text: str, default: int | str | None) -> int | str:
    if isinstance(default, bool):
        return check.one_of(what, text.lower(), ("true", "false")) == "true"
    if isinstance(default, int):
        return check.count(what, int(text) if text.isdecimal() else text)
    return text


def source_of(name: str) -> Source:
    """Return the source of a data set.

    Args:
        name: one of `SOURCES`, or `package.module:callable`, without options.
    """
    if is_python_name(name):
        return Source(lambda folder: load_from_callable(name, {}))
    if name not in SOURCES:
        raise DepthlrError(
            f"There is no data set {name!r}: choose from {', '.join(SOURCES)}, or name your own as "
            "package.module:callable."
        )
    return SOURCES[name]


def data_folder() -> Path:
    """Return the default folder of downloaded data sets."""
    return cache_folder() / "data"


def parse_name(text: str) -> tuple[str, dict[str, str]]:
    """Split a name such as `images?size=64&cache=/tmp` into the name and its options.

    Args:
        text: what the user wrote.
    """
    name, options = split_spec(text, example="size=64")
    return name, {key: unquote(value) for key, value in options.items()}
