"""A file of token ids, such as nanoGPT's `train.bin`: it stays on disk and is mapped into memory.

python -c "import numpy as np; np.random.randint(0, 100, 10**6).astype('uint16').tofile('train.bin')"
depthlr data 'tokens?context=256&vocabulary=100' --folder train.bin
"""

from __future__ import annotations

import json
import mmap
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from depthlr import check
from depthlr.data.files import check_recorded, sampled_digest
from depthlr.errors import DepthlrError, one_sentence_errors

DTYPES = ("uint8", "uint16", "uint32", "int16", "int32", "int64")
TOKENS_ATTRIBUTION = "your own file; its author's terms hold"
SHARE_OF_GPU = 0.25  # a file that needs at most this share of a GPU's free memory is copied there


@dataclass(frozen=True, eq=False)
class TokenSet:
    """Token ids in a file. Example i holds `context` ids from `i * context` on; each target is the next id.

    Another process gets the path and maps the file itself, so worker processes share one copy of it.
    """

    name: str
    path: Path
    dtype: str
    context: int
    classes: int  # the size of the vocabulary
    digest: str
    attribution: str
    loaded: Tensor | None = field(default=None, repr=False)  # int32 (length,), on a GPU that has room for the file

    @property
    def on_host(self) -> bool:
        return self.loaded is None

    @cached_property
    def ids(self) -> NDArray[Any]:
        """All ids, mapped into memory."""
        with self.path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_RANDOM"):
            mapped.madvise(mmap.MADV_RANDOM)  # reading ahead of a random window can cost a thousand times its own time
        return np.frombuffer(mapped, np.dtype(self.dtype).newbyteorder("<"))

    def __getstate__(self) -> dict[str, Any]:
        """Without the map, which would be pickled as the whole file."""
        return {key: value for key, value in vars(self).items() if key != "ids"}

    def __len__(self) -> int:
        return (len(self.ids) - 1) // self.context

    @property
    def input(self) -> str:
        return f"ids:{self.context}:{self.classes}"

    def to(self, device: torch.device | str) -> Self:
        """Copy the ids to a GPU that has room for them. Otherwise they stay on the host."""
        if not has_room(torch.device(device), 4 * len(self.ids)):
            return self
        loaded = torch.from_numpy(self.ids.astype(np.int32))
        self._check(loaded)
        return replace(self, loaded=loaded.to(device))

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:  # int64 (B,) -> int64 (B, T), int64 (B, T)
        offsets = torch.arange(self.context + 1, device=indices.device)
        positions = indices[:, None] * self.context + offsets
        if self.loaded is not None:
            windows = self.loaded.index_select(0, positions.flatten()).view(positions.shape).to(torch.int64)
        else:
            windows = torch.from_numpy(self.ids[positions.numpy()].astype(np.int64))
            self._check(windows)
        return windows[:, :-1], windows[:, 1:]

    def _check(self, ids: Tensor) -> None:
        """Raise an error if an id is outside the vocabulary: on a GPU it would end the process's work."""
        low, high = (int(end) for end in ids.aminmax())
        if low < 0 or high >= self.classes:
            raise DepthlrError(
                f"{self.path} has the id {low if low < 0 else high}, outside its vocabulary of {self.classes}: give "
                "the right vocabulary and dtype, such as tokens?vocabulary=50304&dtype=uint16."
            )


def has_room(device: torch.device, size: int) -> bool:
    """Return whether a device is a GPU with enough free memory to hold a copy of the data beside the models.

    Args:
        device: the device.
        size: the size of the copy in bytes.
    """
    return device.type == "cuda" and size <= SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0]


def load_tokens(
    folder: Path, context: int = 256, dtype: str = "uint16", vocabulary: int = 0, split: str | None = None
) -> TokenSet:
    """Open a file of token ids, written one after the other in little-endian order.

    Args:
        folder: a folder with `train.bin`, or the file itself.
        context: the number of ids in a window.
        dtype: the type of an id, one of `DTYPES`.
        vocabulary: the number of ids there are. With 0 it is `vocab_size` in `meta.json` beside the file.
        split: open `SPLIT.bin` beside the training file instead, such as `val`.
    """
    check.one_of("tokens?dtype", dtype, DTYPES)
    path = folder if folder.is_file() else folder / "train.bin"
    if split is not None:
        path = path.with_name(f"{split}.bin")
    if not path.is_file():
        raise DepthlrError(f"There is no file {path}: name the file of token ids, or a folder with {path.name}.")
    width, size = np.dtype(dtype).itemsize, path.stat().st_size
    if size % width or size // width <= context:
        raise DepthlrError(
            f"{path} has {size} bytes: ids of type {dtype} and a context of {context} need a multiple of {width}, and "
            f"at least {width * (context + 1)}."
        )
    classes = vocabulary or _read_vocabulary(path.with_name("meta.json"))
    digest = sampled_digest(path)
    check_recorded(path.parent, path.name, digest)
    return TokenSet("tokens", path.absolute(), dtype, context, classes, digest, TOKENS_ATTRIBUTION)


def _read_vocabulary(meta: Path) -> int:
    if not meta.exists():
        raise DepthlrError(
            f"The vocabulary is not known: give it, as in tokens?vocabulary=50304, or write it to {meta} as "
            '{"vocab_size": 50304}.'
        )
    with one_sentence_errors(f'{meta} does not give a vocabulary: write it as {{"vocab_size": 50304}}'):
        return check.count(f"vocab_size in {meta}", json.loads(meta.read_bytes())["vocab_size"])
