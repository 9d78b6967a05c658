"""A text as a stream of character ids; an example is a window of it, and its targets are the ids that follow."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from depthlr.errors import DepthlrError


@dataclass(frozen=True, eq=False)
class TextSet:
    """Example i reads `context` ids from place `i * stride` on and predicts each one's next.

    Id k stands for `characters[k]`. With a stride of `context` examples do not overlap.
    """

    name: str
    ids: Tensor = field(repr=False)  # uint8 or int16 (length,)
    context: int
    characters: str = field(repr=False)
    digest: str
    attribution: str
    stride: int = 1
    _offsets: Tensor = field(init=False, repr=False)  # (context + 1,)

    def __post_init__(self) -> None:
        if not 1 <= self.context < len(self.ids):
            raise DepthlrError(
                f"{self.name}: a context of {self.context} does not fit a text of {len(self.ids)} characters; choose "
                f"from 1 to {len(self.ids) - 1}."
            )
        object.__setattr__(self, "_offsets", torch.arange(self.context + 1, device=self.ids.device))

    def __len__(self) -> int:
        return (len(self.ids) - self.context - 1) // self.stride + 1

    @property
    def classes(self) -> int:
        return len(self.characters)

    @property
    def input(self) -> str:
        return f"ids:{self.context}:{self.classes}"

    def to(self, device: torch.device | str) -> Self:
        return replace(self, ids=self.ids.to(device))

    @property
    def overlaps(self) -> bool:
        """Do windows share ids with their neighbours?"""
        return self.stride < self.context

    def one_pass(self) -> Tensor:
        """Indices of windows that do not overlap."""
        return torch.arange(0, len(self), -(-self.context // self.stride))

    def cut(self, held_out: int) -> tuple[Self, Self]:
        """The text before its last part, and that part, which holds so many examples."""
        place = len(self.ids) - self.context - 1 - (held_out - 1) * self.stride
        if place <= self.context:
            raise DepthlrError(f"{self.name}: {held_out} held-out windows leave too little text to train on.")
        parts = []
        for part, ids in (("before", self.ids[:place]), ("from", self.ids[place:])):
            digest = hashlib.sha256(f"{self.digest} {part} {place}".encode()).hexdigest()
            parts.append(replace(self, ids=ids, digest=digest))
        return parts[0], parts[1]

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:  # int64 (B,) -> int64 (B, T), int64 (B, T)
        places = indices[:, None] * self.stride + self._offsets
        windows = self.ids.index_select(0, places.flatten()).view(places.shape).to(torch.int64)
        return windows[:, :-1], windows[:, 1:]
