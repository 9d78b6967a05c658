"""What training needs of a data set: examples that lie on the device and are gathered by index."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

import torch
from torch import Tensor

from depthlr.errors import DepthlrError


class Examples(Protocol):
    """Examples 0..len-1 in memory; `batch` is tensor work alone, so that a CUDA graph can capture it."""

    @property
    def name(self) -> str: ...

    @property
    def classes(self) -> int:
        """How many values a target can have: labels, or the vocabulary of a text."""

    @property
    def digest(self) -> str:
        """sha256 of the examples themselves: equal digests train alike, whatever file they came from."""

    @property
    def attribution(self) -> str: ...

    @property
    def input(self) -> str:
        """One example as `models.build(input=...)` takes it: `3x32x32`, or `ids:128:65`."""

    def __len__(self) -> int: ...

    def to(self, device: torch.device | str) -> Self: ...

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and int64 targets of these examples; the indices lie on the same device."""


@dataclass(frozen=True, eq=False)
class Subset:
    """Some of the examples of a set, numbered from 0."""

    whole: Examples
    indices: Tensor = field(repr=False)  # int64, into the whole
    part: str  # which part of the whole this is, for the digest

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def classes(self) -> int:
        return self.whole.classes

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.whole.digest} {self.part}".encode()).hexdigest()

    @property
    def attribution(self) -> str:
        return self.whole.attribution

    @property
    def input(self) -> str:
        return self.whole.input

    def __len__(self) -> int:
        return len(self.indices)

    def to(self, device: torch.device | str) -> Self:
        return replace(self, whole=self.whole.to(device), indices=self.indices.to(device))

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        return self.whole.batch(self.indices.index_select(0, indices))


def split(examples: Examples, held_out: float | int) -> tuple[Examples, Examples]:
    """Examples to train on, and examples to evaluate on.

    Args:
        examples: the whole set. Examples are drawn by a fixed seed; a text whose windows overlap is cut in two.
        held_out: how many examples to evaluate on, or which share of them.
    """
    count = held_out if isinstance(held_out, int) else round(held_out * len(examples))
    if not 1 <= count < len(examples):
        raise DepthlrError(
            f"{count} of {len(examples)} examples of {examples.name} cannot be held out: choose from 1 to "
            f"{len(examples) - 1}."
        )
    if getattr(examples, "overlaps", False):  # a drawn example would be in its neighbours too
        parts: tuple[Examples, Examples] = examples.cut(count)  # type: ignore[attr-defined]
        return parts
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(0))
    first, last = order[:-count].sort().values, order[-count:].sort().values
    return Subset(examples, first, f"all but {count}"), Subset(examples, last, f"{count} held out")


def one_pass(examples: Examples) -> Tensor:
    """Indices that see all of the data once: every example, or those windows of a text that do not overlap."""
    if hasattr(examples, "one_pass"):
        chosen: Tensor = examples.one_pass()
        return chosen
    return torch.arange(len(examples))
