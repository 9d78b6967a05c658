"""An example input: what a model's forward is called with so that it can be watched, `3x32x32` or `ids:128:50257`."""

import math
import re
from dataclasses import dataclass

import torch
from torch import Tensor

from depthlr.errors import DepthlrError

Example = tuple[Tensor, ...] | dict[str, Tensor]
"""Positional arguments, or keyword arguments, of a forward."""

BATCH_SIZE = 2  # enough for BatchNorm in train mode, and no more


@dataclass(frozen=True)
class Floats:
    """Normal numbers of this shape, the batch left out; prints as `3x32x32`."""

    shape: tuple[int, ...]

    def __str__(self) -> str:
        return "x".join(map(str, self.shape))

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def tensor(self, *, meta: bool = False) -> Tensor:  # (2, *shape), the same numbers each time
        if meta:
            return torch.empty(BATCH_SIZE, *self.shape, device="meta")
        return torch.randn(BATCH_SIZE, *self.shape, generator=torch.Generator().manual_seed(0))


@dataclass(frozen=True)
class Ids:
    """Token ids below `vocabulary`; prints as `ids:128:50257`."""

    sequence: int
    vocabulary: int

    def __str__(self) -> str:
        return f"ids:{self.sequence}:{self.vocabulary}"

    def tensor(self, *, meta: bool = False) -> Tensor:  # int64 (2, sequence), the same ids each time
        shape = (BATCH_SIZE, self.sequence)
        if meta:
            return torch.empty(shape, dtype=torch.int64, device="meta")
        return torch.randint(self.vocabulary, shape, generator=torch.Generator().manual_seed(0))


InputShape = Floats | Ids


def parse_input(text: str) -> InputShape:
    """The shape of one example from its text; the batch is added later."""
    if match := re.fullmatch(r"ids:([1-9]\d{0,17}):([1-9]\d{0,17})", text):
        return Ids(int(match[1]), int(match[2]))
    if re.fullmatch(r"[1-9]\d{0,17}(x[1-9]\d{0,17})*", text):
        return Floats(tuple(map(int, text.split("x"))))
    raise DepthlrError(
        f"The input {text!r} is not understood: write sizes without the batch, such as 3x32x32, "
        "or ids:SEQUENCE:VOCABULARY, such as ids:128:50257."
    )
