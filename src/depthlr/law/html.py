"""A table as HTML, for the notebook's view of depths, energies, fits and results; whatever goes in is escaped."""

from collections.abc import Iterable, Sequence
from html import escape

SCROLL = "max-height:28em;overflow:auto"  # a model of a thousand units does not fill the notebook


def html_table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[object] = ()
) -> str:
    """A captioned table, one row each, with notes below it."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if body else ""
    below = "".join(f"<p><em>{escape(str(note))}</em></p>" for note in notes)
    return f'<div style="{SCROLL}"><p><strong>{escape(caption)}</strong></p>{table}{below}</div>'
