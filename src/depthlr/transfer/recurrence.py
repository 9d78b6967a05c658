"""Seeing that a model is recurrent while it is measured."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode

from depthlr.trace.operations import RECURRENT, RECURRENT_CELLS

NAMES = RECURRENT | RECURRENT_CELLS


class RecurrenceWatch(TorchFunctionMode):
    """`seen` once a recurrent layer or cell has run inside, by the names that depth counting knows them by."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.seen |= getattr(func, "__name__", "") in NAMES
        return func(*args, **(kwargs or {}))
