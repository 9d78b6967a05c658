"""The user's own code by its name, `package.module:name`, imported as Python would from the current directory."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
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
        function = python_callable(name)
        try:
            inspect.signature(function).bind(**arguments)
        except TypeError as error:
            raise DepthlrError(f"{name} cannot be called with these arguments: {error}.") from error
        return function(**arguments)


def python_callable(name: str) -> Any:
    """The callable of that name.

    Args:
        name: `package.module:name`.

    Raises:
        DepthlrError: The module cannot be imported, or holds no such callable.
    """
    module_name, _, path = name.partition(":")
    with _current_directory_importable(), one_sentence_errors(f"{module_name} could not be imported for {name}"):
        try:
            found: Any = import_module(module_name)
        except ModuleNotFoundError as error:
            # A module of that name may exist and miss one of its own imports; name the one that is missing.
            raise DepthlrError(
                f"There is no module {error.name!r} to import for {name}: check the name, or run where it can be found."
            ) from error
    for attribute in path.split("."):
        if not hasattr(found, attribute):
            raise DepthlrError(f"{module_name} has no {path!r}: check the name after the colon in {name}.")
        found = getattr(found, attribute)
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
