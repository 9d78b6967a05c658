"""The data sets of the experiments, all below one folder."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from torch import Tensor

from depthlr.data.examples import Examples, View
from depthlr.data.sources import load, parse_name

FOLDERS: dict[str, str] = {  # where a set without a publisher's layout of its own lies, below the folder of all data
    "images": "tiny-imagenet-100",
    "wav": "fsdd",
    "text": "tinyshakespeare",
}


def load_examples(name: str, data: Path, *, sequences: bool = False) -> Examples:
    """A data set from its folder below the folder of all data.

    Args:
        name: as `depthlr.data.load` takes it.
        data: the folder of all data.
        sequences: give spectrograms as sequences.
    """
    own = FOLDERS.get(parse_name(name)[0])
    found = _load(name, data if own is None else data / own)
    return Sequences(found) if sequences else found


@lru_cache(maxsize=1)  # consecutive settings and tasks share theirs
def _load(name: str, folder: Path) -> Examples:
    return load(name, folder)


class Sequences(View):
    """Spectrograms as (mels, frames) instead of (1, mels, frames), for models that convolve along time alone."""

    @property
    def input(self) -> str:
        return super().input.removeprefix("1x")

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:  # int64 (B,) -> float32 (B, mels, frames), int64 (B,)
        inputs, targets = super().batch(indices)
        return inputs.squeeze(1), targets
