"""Pages in Markdown: the prose is written by hand, the parts with numbers are filled in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from depthlr.errors import DepthlrError
from experiments.tables import read_text, write_text


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown.

    Args:
        head: the titles of the columns.
        rows: the cells, row by row.
    """
    lines = [list(head), ["---"] * len(head), *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fill(template: str, parts: Mapping[str, str]) -> str:
    """The template with each `{{name}}` replaced by its part.

    Args:
        template: Markdown with `{{name}}` where parts stand.
        parts: by name. An empty part also removes the blank line after it.
    """
    for name, text in parts.items():
        marker = f"{{{{{name}}}}}"
        template = template.replace(marker if text else f"{marker}\n\n", text)
    return template


def put(page: Path, name: str, text: str) -> None:
    """Replace the text between `<!-- NAME -->` and `<!-- /NAME -->`.

    Args:
        page: the Markdown file.
        name: NAME.
        text: the new text.
    """
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = read_text(page).partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise DepthlrError(f"{page} has no markers for the table: write {begin} and {end} where it should stand.")
    write_text(page, f"{before}{begin}\n\n{text}\n{end}{after}")
