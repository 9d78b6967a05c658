"""The shape of JSON that was kept: checked once, where it is read, so that nothing later stumbles over damage."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from depthlr.errors import DepthlrError

Read = Callable[[str, Any], Any]
"""An entry's value from its name and its JSON, null where it is missing; raises a sentence where it cannot be one."""
Shape = Mapping[str, Read]


def shaped(text: str, shape: Shape) -> dict[str, Any]:
    """The entries that the shape names, of the object in a JSON text; whatever else it holds is left out."""
    try:
        found: dict[str, Any] = an_object(shape)("it", json.loads(text))
    except RecursionError as error:
        raise DepthlrError("it is nested too deeply") from error
    return found


def an_object(shape: Shape) -> Read:
    def read(name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise DepthlrError(f"{name} is no object")
        return {key: _entry(name, value, key, of) for key, of in shape.items()}

    return read


def or_else(default: Any, read: Read) -> Read:
    """For an entry that may be missing, as in files from before it was kept."""
    return lambda name, value: default if value is None else read(name, value)


def truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise DepthlrError(f"{name} is {value!r}, not true or false")
    return value


def _entry(name: str, found: Mapping[str, Any], key: str, read: Read) -> Any:
    try:
        return read(key, found.get(key))
    except DepthlrError:
        if key in found:
            raise
        raise DepthlrError(f"{name} lacks {key}") from None
