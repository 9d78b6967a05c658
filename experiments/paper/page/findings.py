"""What was found, in words: kept beside the tables that it is true of, since other tables say other things."""

from __future__ import annotations

import re
from pathlib import Path

from experiments.tables import read_text

FINDINGS = ("first", "findings", "grids", "cost")  # the parts of the page


def read_findings(folder: Path) -> dict[str, str]:
    """The parts of `findings.md`, each under a comment with its name; none where there is no such file."""
    file = folder / "findings.md"
    if not file.is_file():
        return {}
    _, *parts = re.split(rf"^<!-- ({'|'.join(FINDINGS)}) -->$", read_text(file), flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
