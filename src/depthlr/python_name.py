"""The user's own code by its name, `package.module:name`, imported as Python would from the current directory."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import Any

from depthlr.errors import DepthlrError, one_sentence_errors

PYTHON_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def is_python_name(text: str) -> bool:
    """Does a text have the form `package.module:name`?

    Args:
        text: What the user wrote.
    """
    return PYTHON_NAME.fullmatch(text) is not None


def call_by_name(name: str, arguments: Mapping[str, Any]) -> Any:
    """What the callable of that name returns for these arguments.

    Args:
        name: `package.module:name`.
        arguments: Its keyword arguments.
    """
    with _current_directory_importable():
        return python_callable(name)(**arguments)


def python_callable(name: str) -> Any:
    """The callable of that name.

    Args:
        name: `package.module:name`.

    Raises:
        DepthlrError: The module cannot be imported, or holds no such callable.
    """
    with _current_directory_importable(), one_sentence_errors(f"{name} could not be imported"):
        found = resolve_name(name)
    if not callable(found):
        raise DepthlrError(f"{name} is a {type(found).__name__}, not a callable: name a function.")
    return found


@contextmanager
def _current_directory_importable() -> Iterator[None]:
    directory = os.getcwd()
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        sys.path.remove(directory)
