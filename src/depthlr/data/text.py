"""A text file as character ids: an example is a window of the text, and its targets are the characters that follow."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from depthlr import check
from depthlr.data.files import check_recorded
from depthlr.errors import DepthlrError, one_sentence_errors


@dataclass(frozen=True, eq=False)
class TextSet:
    """A text as ids. Example i holds the `context` ids that start at `i * stride`; each target is the next id.

    Id k stands for `characters[k]`. With `stride=context` the examples do not overlap.
    """

    name: str
    ids: Tensor = field(repr=False)  # uint8 or int32 (length,)
    context: int
    characters: str = field(repr=False)
    digest: str
    attribution: str
    stride: int = 1
    _offsets: Tensor = field(init=False, repr=False)  # (context + 1,)

    def __post_init__(self) -> None:
        check.count(f"The context of {self.name}", self.context, most=len(self.ids) - 1)
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
        """Whether neighbouring windows have characters in common."""
        return self.stride < self.context

    def one_pass(self) -> Tensor:
        """Return the indices of windows that do not overlap."""
        return torch.arange(0, len(self), -(-self.context // self.stride))

    def cut(self, held_out: int) -> tuple[Self, Self]:
        """Cut the text in two: the first part to train on, the last part to evaluate on.

        Args:
            held_out: the number of examples in the last part.
        """
        position = len(self.ids) - self.context - 1 - (held_out - 1) * self.stride
        if position <= self.context:
            raise DepthlrError(f"{self.name}: {held_out} held-out windows leave too little text to train on.")
        parts = []
        for part, ids in (("before", self.ids[:position]), ("from", self.ids[position:])):
            digest = hashlib.sha256(f"{self.digest} {part} {position}".encode()).hexdigest()
            parts.append(replace(self, ids=ids, digest=digest))
        return parts[0], parts[1]

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:  # int64 (B,) -> int64 (B, T), int64 (B, T)
        positions = indices[:, None] * self.stride + self._offsets
        windows = self.ids.index_select(0, positions.flatten()).view(positions.shape).to(torch.int64)
        return windows[:, :-1], windows[:, 1:]


TEXT_ATTRIBUTION = "your own file; its author's terms hold (tiny shakespeare: public domain)"


def load_text(folder: Path, context: int = 128) -> TextSet:
    """Read a text in UTF-8. Its characters are numbered in the order of their code points.

    Args:
        folder: a folder with one `.txt` file, or the file itself.
        context: the number of characters in a window.
    """
    path = _find_text(folder)
    content = path.read_bytes()
    with one_sentence_errors(f"{path} is no UTF-8 text: convert it to UTF-8"):
        points = np.frombuffer(content.decode().encode("utf-32-le"), "<u4")
    alphabet, ids = np.unique(points, return_inverse=True)
    data = TextSet(
        name="text",
        ids=torch.from_numpy(ids.astype(np.uint8 if len(alphabet) <= 256 else np.int32)),
        context=context,
        characters="".join(map(chr, alphabet.tolist())),
        digest=hashlib.sha256(content).hexdigest(),
        attribution=TEXT_ATTRIBUTION,
    )
    check_recorded(path.parent, path.name, data.digest)
    return data


def _find_text(folder: Path) -> Path:
    if folder.is_file():
        return folder
    if not folder.is_dir():
        raise DepthlrError(f"there is no folder {folder}: name the one with your .txt file.")
    found = sorted(folder.glob("*.txt"))
    if len(found) != 1:
        raise DepthlrError(f"{folder} holds {len(found)} .txt files: name the one to read.")
    return found[0]
