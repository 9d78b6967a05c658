"""Files that carry a label: one folder a class, or a label at the start of each name."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from depthlr.data.digests import file_digest
from depthlr.errors import DepthlrError


@dataclass(frozen=True)
class LabelledFiles:
    """Files below `root` in the order of their paths, and the class of each; classes are sorted by name."""

    root: Path
    paths: tuple[str, ...]  # relative to the root, with /
    labels: tuple[int, ...]
    classes: tuple[str, ...]

    def digest(self) -> str:
        """sha256 of every path and every file's content."""
        digest = hashlib.sha256()
        for path in self.paths:
            digest.update(f"{path}\0{file_digest(self.root / path, 'sha256')}\n".encode())
        return digest.hexdigest()


def labelled_files(folder: Path, suffixes: Collection[str]) -> LabelledFiles:
    """The files with these suffixes in `folder/train`, or in `folder` where it has no such part.

    A file's class is the folder it lies in, below the root. Where all lie in one folder it is the name up to the first
    underscore.
    """
    if not folder.exists():
        raise DepthlrError(f"There is no folder {folder}: name the one that holds the data.")
    root = folder / "train" if (folder / "train").is_dir() else folder
    paths = sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.suffix.lower() in suffixes)
    if not paths:
        raise DepthlrError(f"{root} holds no {'/'.join(suffixes)} files: name a folder that has one folder a class.")
    if len({path.rpartition("/")[0] for path in paths}) == 1:
        named = [path.rpartition("/")[2].partition("_") for path in paths]
        if not all(underscore for _, underscore, _ in named):
            raise DepthlrError(
                f"{root} has all its files in one folder, and some without a label: make one folder a class, or name "
                "each file LABEL_anything."
            )
        classes = [label for label, _, _ in named]
    else:
        classes = [path.partition("/")[0] for path in paths]
        if loose := [path for path in paths if "/" not in path]:
            raise DepthlrError(f"{root / loose[0]} lies beside the class folders: move it into one, or away.")
    order = sorted(set(classes))
    index = {label: i for i, label in enumerate(order)}
    return LabelledFiles(root, tuple(paths), tuple(index[label] for label in classes), tuple(order))
