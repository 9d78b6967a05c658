"""What training needs of a data set: examples that lie on the device and are gathered by index."""

from __future__ import annotations

from typing import Protocol, Self

import torch
from torch import Tensor


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
