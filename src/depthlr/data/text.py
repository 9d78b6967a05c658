"""A text file as character ids."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch

from depthlr.data.digests import check_recorded
from depthlr.data.textset import TextSet
from depthlr.errors import DepthlrError

ATTRIBUTION = "your own file; its author's terms hold (tiny shakespeare: public domain)"


def load_text(folder: Path, context: int = 128) -> TextSet:
    """The UTF-8 text in `folder` (or in the file it names); its characters are numbered in code point order."""
    path = _find(folder)
    content = path.read_bytes()
    if not content:
        raise DepthlrError(f"{path} holds no text: name a file that does.")
    try:
        points = np.frombuffer(content.decode().encode("utf-32-le"), "<u4")
    except UnicodeDecodeError as error:
        raise DepthlrError(f"{path} is no UTF-8 text ({error.reason} at byte {error.start}): convert it.") from error
    alphabet, ids = np.unique(points, return_inverse=True)
    if len(alphabet) > 32_768:
        raise DepthlrError(f"{path} has {len(alphabet)} different characters, more than 32768: choose another text.")
    data = TextSet(
        name="text",
        ids=torch.from_numpy(ids.astype(np.uint8 if len(alphabet) <= 256 else np.int16)),
        context=context,
        characters="".join(map(chr, alphabet.tolist())),
        digest=hashlib.sha256(content).hexdigest(),
        attribution=ATTRIBUTION,
    )
    check_recorded(path.parent, path.name, data.digest)
    return data


def _find(folder: Path) -> Path:
    if folder.is_file():
        return folder
    if not folder.exists():
        raise DepthlrError(f"There is no folder {folder}: name the one that holds the data.")
    found = sorted(folder.glob("*.txt"))
    if len(found) != 1:
        raise DepthlrError(f"{folder} holds {len(found)} .txt files: name the one to read.")
    return found[0]
