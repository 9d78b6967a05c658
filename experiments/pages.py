"""Pages in Markdown: the prose is written by hand, the parts with numbers are filled in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from depthlr.errors import DepthlrError
from experiments.tables import read_text, write_text


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; `head` are the titles of its columns."""
    lines = [list(head), ["---"] * len(head), *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fill(template: str, parts: Mapping[str, str]) -> str:
    """The template with each `{{name}}` replaced by its part; an empty part takes the blank line after it along."""
    for name, text in parts.items():
        place = f"{{{{{name}}}}}"
        template = template.replace(place if text else f"{place}\n\n", text)
    return template


def put(page: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- NAME -->` and `<!-- /NAME -->`."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = read_text(page).partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise DepthlrError(f"{page} has no place for the table: write {begin} and {end} where it should stand.")
    write_text(page, f"{before}{begin}\n\n{text}\n{end}{after}")
