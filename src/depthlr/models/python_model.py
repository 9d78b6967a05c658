"""A user's own model, `package.module:callable`, found as Python would find it from the current directory."""

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from torch import Tensor, nn

from depthlr.errors import DepthlrError
from depthlr.models.example import Example
from depthlr.models.value import Value


def build_python(name: str, arguments: dict[str, Value]) -> tuple[nn.Module, Example | None]:
    """What the callable returns: a model, or a model and its example input."""
    with _current_directory_importable():
        function = _function(name)
        try:
            inspect.signature(function).bind(**arguments)
        except TypeError as error:
            raise DepthlrError(f"{name} cannot be called with these arguments: {error}.") from error
        made = function(**arguments)
    model, example = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if isinstance(example, Tensor):
        example = (example,)
    elif isinstance(example, list):
        example = tuple(example)
    if not isinstance(model, nn.Module) or not isinstance(example, tuple | dict | None):
        raise DepthlrError(
            f"{name} returned {type(made).__name__}: return a torch.nn.Module, or a module and its example input."
        )
    return model, example


def _function(name: str) -> Any:
    module_name, _, path = name.partition(":")
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
        raise DepthlrError(
            f"{name} is a {type(found).__name__}, not a callable: name a function that returns the model."
        )
    return found


@contextmanager
def _current_directory_importable() -> Iterator[None]:
    directory = os.getcwd()
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        sys.path.remove(directory)
