"""Reading the pickles of CIFAR's Python version without unpickling: no name in a file is ever imported or called.

The files are dicts that Python 2 wrote with protocol 1 or 2: strings, lists of numbers, and one uint8 array. This reads
just the opcodes such dicts need, and knows the three numpy names in them as words.
"""

from __future__ import annotations

import math
import pickletools
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from depthlr.errors import DepthlrError

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
