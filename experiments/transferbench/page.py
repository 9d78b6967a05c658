"""The page's tables stand between markers; what is around them is written by hand."""

from __future__ import annotations

from pathlib import Path

from depthlr.errors import DepthlrError
from experiments.paper.table import read_text, write_text


def put(page: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- NAME -->` and `<!-- /NAME -->`."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = read_text(page).partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise DepthlrError(f"{page} has no place for the table: write {begin} and {end} where it should stand.")
    write_text(page, f"{before}{begin}\n\n{text}\n{end}{after}")
