"""Where the files of a setting lie: FOLDER/RECIPE/SETTING.PROTOCOL and what they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """The files of one setting under one protocol, below a folder."""

    folder: Path
    recipe: str
    setting: str
    protocol: str

    def file(self, kind: str) -> Path:
        """`file("csv")`, `file("carried.csv")`."""
        return self.folder / self.recipe / f"{self.setting}.{self.protocol}.{kind}"
