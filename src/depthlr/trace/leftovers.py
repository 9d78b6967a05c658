"""Fake tensors that outlive their run: a cache outside the model that kept one would hand it to the next real run."""

from __future__ import annotations

import functools
import gc
from types import ModuleType
from typing import Any

from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from depthlr.errors import DepthlrError


def forget(mode: FakeTensorMode) -> None:
    """Empty the caches that hold one of this mode's after a run; where something else does, say so."""
    if not _left(mode):
        return
    gc.collect()  # most were only waiting for it
    empty_caches(mode)
    gc.collect()
    if _left(mode):
        raise DepthlrError(
            "the model keeps tensors outside of its modules, where they cannot be put back, and is too large to be "
            "counted on real ones: hold them in the model, or in a dict or functools.lru_cache, and build it anew."
        )


def _left(mode: FakeTensorMode) -> list[FakeTensor]:
    # type(), not isinstance(): some objects answer to __class__ with a surprise.
    return [one for one in gc.get_objects() if type(one) is FakeTensor and one.fake_mode is mode]


def empty_caches(mode: FakeTensorMode) -> None:
    """After a failed run too, which its error's traceback still holds."""
    for tensor in _left(mode):
        _drop(tensor)


def _drop(held: Any) -> None:
    """Out of the lru_caches and dicts that hold it, by itself or in a tuple."""
    for holder in gc.get_referrers(held):
        if isinstance(holder, functools._lru_cache_wrapper):
            holder.cache_clear()
        elif isinstance(holder, tuple):
            _drop(holder)
        elif isinstance(holder, dict) and not _is_namespace(holder):
            for key in [key for key, value in holder.items() if value is held]:
                del holder[key]


def _is_namespace(holder: dict[Any, Any]) -> bool:
    """Variables of a module, attributes of an object: whoever reads them expects them there."""
    owners = gc.get_referrers(holder)
    return any(isinstance(o, ModuleType) or getattr(o, "__dict__", None) is holder for o in owners)
