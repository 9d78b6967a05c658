"""The interface that training needs of a data set, subsets of one, and the split into training and evaluation."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

import torch
from torch import Tensor

from depthlr import check


class Examples(Protocol):
    """Examples 0 to len - 1. In memory, `batch` uses tensor operations only, so that a CUDA graph can capture it.

    Data sets that are larger than memory have an attribute `on_host` that is true: see `is_on_host`.
    """

    @property
    def name(self) -> str: ...

    @property
    def classes(self) -> int:
        """The number of values a target can have: the number of labels, or the size of a vocabulary."""

    @property
    def digest(self) -> str:
        """The sha256 of the examples, whatever file they came from: equal digests mean equal training data."""

    @property
    def attribution(self) -> str: ...

    @property
    def input(self) -> str:
        """The shape of one input, as `models.build(input=...)` takes it: `3x32x32` or `ids:128:65`."""

    def __len__(self) -> int: ...

    def to(self, device: torch.device | str) -> Self: ...

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inputs and the targets of these examples.

        Args:
            indices: int64 (B,), on the device of the examples.
        """


def is_on_host(examples: Examples) -> bool:
    """Return whether batches are read on the host, in Python code, wherever the model is.

    `to(device)` of such examples may leave them on the host. Then `batch` takes and returns tensors on the CPU.

    Args:
        examples: the data set.
    """
    return bool(getattr(examples, "on_host", False))


@dataclass(frozen=True, eq=False)
class View:
    """Another way to look at a data set. A subclass says what differs."""

    whole: Examples

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def classes(self) -> int:
        return self.whole.classes

    @property
    def digest(self) -> str:
        return self.whole.digest

    @property
    def attribution(self) -> str:
        return self.whole.attribution

    @property
    def input(self) -> str:
        return self.whole.input

    @property
    def on_host(self) -> bool:
        return is_on_host(self.whole)

    def __len__(self) -> int:
        return len(self.whole)

    def to(self, device: torch.device | str) -> Self:
        return replace(self, whole=self.whole.to(device))

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        return self.whole.batch(indices)


@dataclass(frozen=True, eq=False)
class Subset(View):
    """Some examples of a data set, numbered from 0."""

    indices: Tensor = field(repr=False)  # int64, indices of the whole set
    part: str  # says which part of the whole set this is; enters the digest

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.whole.digest} {self.part}".encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.indices)

    def to(self, device: torch.device | str) -> Self:
        whole = self.whole.to(device)
        return replace(self, whole=whole, indices=self.indices if is_on_host(whole) else self.indices.to(device))

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        return self.whole.batch(self.indices.index_select(0, indices))


def split(examples: Examples, held_out: float | int) -> tuple[Examples, Examples]:
    """Split a data set into examples to train on and examples to evaluate on.

    Args:
        examples: the whole data set. The evaluation examples are drawn with a fixed seed. A text with overlapping
            windows is cut into two parts instead.
        held_out: the number of examples to evaluate on (an integer), or their fraction (a float).

    Returns:
        The examples to train on, and those to evaluate on.
    """
    count = held_out if isinstance(held_out, int) else round(held_out * len(examples))
    check.count(f"The number of held-out examples of {examples.name}", count, most=len(examples) - 1)
    if getattr(examples, "overlaps", False):  # windows around a held-out one contain its characters
        parts: tuple[Examples, Examples] = examples.cut(count)  # type: ignore[attr-defined]
        return parts
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(0))
    first, last = order[:-count].sort().values, order[-count:].sort().values
    return Subset(examples, first, f"all but {count}"), Subset(examples, last, f"{count} held out")


def one_pass(examples: Examples) -> Tensor:
    """Return the indices of one pass over the data: all examples, or the windows of a text that do not overlap.

    Args:
        examples: the data set.
    """
    if hasattr(examples, "one_pass"):
        chosen: Tensor = examples.one_pass()
        return chosen
    return torch.arange(len(examples))
