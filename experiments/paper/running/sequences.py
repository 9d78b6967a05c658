"""Spectrograms read as sequences, one channel a mel band, for models that convolve along time alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from depthlr.data.examples import Examples


@dataclass(frozen=True)
class Sequences:
    """The same examples as (mels, frames) instead of (1, mels, frames)."""

    spectrograms: Examples

    @property
    def name(self) -> str:
        return self.spectrograms.name

    @property
    def classes(self) -> int:
        return self.spectrograms.classes

    @property
    def digest(self) -> str:
        return self.spectrograms.digest

    @property
    def attribution(self) -> str:
        return self.spectrograms.attribution

    @property
    def input(self) -> str:
        return self.spectrograms.input.removeprefix("1x")

    def __len__(self) -> int:
        return len(self.spectrograms)

    def to(self, device: torch.device | str) -> Self:
        return type(self)(self.spectrograms.to(device))

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:  # int64 (B,) -> float32 (B, mels, frames), int64 (B,)
        inputs, targets = self.spectrograms.batch(indices)
        return inputs.squeeze(1), targets
