"""How numbers are written for people, and tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MINUS = "\N{MINUS SIGN}"
SCROLL = "max-height:28em;overflow:auto"  # a model of a thousand units does not fill the notebook


def rate_text(rate: float) -> str:
    """A rate in three digits, such as 6.23e-3.

    Args:
        rate: The rate.
    """
    mantissa, exponent = f"{rate:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def number_text(value: float, digits: int = 3) -> str:
    """A number such as 0.02 or 139, in powers of ten (1e-4) if it is below 0.001 or at least 10,000.

    Args:
        value: The number.
        digits: How many significant digits are written.
    """
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def signed(value: float) -> str:
    """Two decimals with a typographic minus sign, and no sign before zero.

    Args:
        value: The number.
    """
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", MINUS)


def html_table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[object] = ()
) -> str:
    """A table as HTML, with everything escaped.

    Args:
        caption: The bold line above the table.
        columns: The titles of the columns.
        rows: The cells, row by row. Without rows there is no table.
        notes: Lines below the table.
    """
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = ""
    for row in rows:
        cells = "".join(f"<td>{escape(str(cell))}</td>" for cell in row)
        body += f"<tr>{cells}</tr>"
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if body else ""
    below = "".join(f"<p><em>{escape(str(note))}</em></p>" for note in notes)
    return f'<div style="{SCROLL}"><p><strong>{escape(caption)}</strong></p>{table}{below}</div>'
