"""Example inputs of models, and their shapes as text: `3x32x32` or `ids:128:50257`."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from depthlr.errors import DepthlrError

Example = tuple[Tensor, ...] | dict[str, Tensor]
"""The positional arguments (a tuple) or keyword arguments (a dict) of a model's forward."""

BATCH_SIZE = 2  # the smallest that BatchNorm accepts in train mode


@dataclass(frozen=True)
class Floats:
    """An input of normal random numbers. `shape` is without the batch; `str` returns `3x32x32`."""

    shape: tuple[int, ...]

    def __str__(self) -> str:
        return "x".join(map(str, self.shape))

    def tensor(self, *, meta: bool = False) -> Tensor:
        """Return a batch, (2, *shape), with the same values on every call.

        Args:
            meta: return a tensor on the meta device, without values.
        """
        if meta:
            return torch.empty(BATCH_SIZE, *self.shape, device="meta")
        return torch.randn(BATCH_SIZE, *self.shape, generator=torch.Generator().manual_seed(0))


@dataclass(frozen=True)
class Ids:
    """An input of token ids from 0 to vocabulary - 1. `str` returns `ids:128:50257`."""

    sequence: int
    vocabulary: int

    def __str__(self) -> str:
        return f"ids:{self.sequence}:{self.vocabulary}"

    def tensor(self, *, meta: bool = False) -> Tensor:
        """Return a batch, int64 (2, sequence), with the same ids on every call.

        Args:
            meta: return a tensor on the meta device, without values.
        """
        shape = (BATCH_SIZE, self.sequence)
        if meta:
            return torch.empty(shape, dtype=torch.int64, device="meta")
        return torch.randint(self.vocabulary, shape, generator=torch.Generator().manual_seed(0))


InputShape = Floats | Ids


def parse_input(text: str) -> InputShape:
    """Read the shape of one example, without the batch.

    Args:
        text: `3x32x32`, or `ids:SEQUENCE:VOCABULARY`.
    """
    if match := re.fullmatch(r"ids:([1-9]\d{0,17}):([1-9]\d{0,17})", text):
        return Ids(int(match[1]), int(match[2]))
    if re.fullmatch(r"[1-9]\d{0,17}(x[1-9]\d{0,17})*", text):
        return Floats(tuple(map(int, text.split("x"))))
    raise DepthlrError(
        f"The input {text!r} is not understood: write sizes without the batch, such as 3x32x32, "
        "or ids:SEQUENCE:VOCABULARY, such as ids:128:50257."
    )
