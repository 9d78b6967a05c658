"""The data sets of the experiments, all below one folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from depthlr.data.examples import Examples
from depthlr.data.sources import load, parse_name

FOLDERS: dict[str, str] = {  # where a set without a publisher's layout of its own lies, below the folder of all data
    "images": "tiny-imagenet-100",
    "wav": "fsdd",
    "text": "tinyshakespeare",
}


def load_examples(name: str, data: Path, *, sequences: bool = False) -> Examples:
    """A data set from its folder below `data`; with `sequences`, spectrograms are read as sequences."""
    own = FOLDERS.get(parse_name(name)[0])
    found = _load(name, data if own is None else data / own)
    return Sequences(found) if sequences else found


@lru_cache(maxsize=1)  # consecutive settings and tasks share theirs
def _load(name: str, folder: Path) -> Examples:
    return load(name, folder)


@dataclass(frozen=True)
class Sequences:
    """Spectrograms as (mels, frames) instead of (1, mels, frames), for models that convolve along time alone."""

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
