"""The page's words: the answer, the rates, what to mind and what was run, as HTML in which every value is escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from depthlr.law.fit import Fit
from depthlr.law.numbers import rate_text, signed
from depthlr.present.findings import Findings
from depthlr.present.rates import RateRow
from depthlr.present.run_facts import commands, run_facts
from depthlr.study.results import Over

MOST_ROWS = 60
WAITING = '<p class="verdict">Waiting for the study’s file: the sweep has not made it yet.</p>'


def sections(found: Findings | None, *, live: bool = False) -> dict[str, str]:
    """HTML by the id of the element that it fills; of no study yet, a line that says so."""
    if found is None:
        return {"status": "waiting", "answer": WAITING, "rates": "", "notes": "", "run": ""}
    return {
        "status": _status(found),
        "answer": _answer(found),
        "rates": _rates(found),
        # The last note of an unfinished study says to run it again, which a live page's reader is just doing.
        "notes": _notes(found.notes[:-1] if live and found.to_come else found.notes),
        "run": _run(found),
    }


def title_of(found: Findings | None) -> str:
    return "depthlr" if found is None else found.results.study.name


def slope_span(fit: Fit) -> str:
    """`95 % interval −1.62 to −1.24`, or that there is none."""
    if not fit.bounded:
        return "no interval: add seeds or sizes"
    low, high = fit.interval
    return f"{fit.level * 100:g} % interval {signed(low)} to {signed(high)}"


def rates_span(row: RateRow) -> str:
    if row.interval is None:
        return ""
    low, high = row.interval
    return f"{rate_text(low)} to {rate_text(high)}" if high < 1e4 * low else "not known"


def _status(found: Findings) -> str:
    cells = len(found.results.records)
    state = f"about {found.to_come} to come" if found.to_come else "finished"
    return f"{cells} cell{'' if cells == 1 else 's'}, {state}"


def _answer(found: Findings) -> str:
    fit = found.slopes[found.over]
    name = "depth" if found.over == "depth" else escape(found.name_of("size"))
    law = ""
    if fit is not None:
        law = (
            f'<p class="headline"><span class="formula">rate ∝ {name}<sup>{signed(fit.slope)}</sup></span> '
            f'<span class="aside">{slope_span(fit)}{fit.r2_text}</span></p>'
        )
    tiles = [_slope_tile(found, "size")] if found.over == "depth" else []
    measured = [row for row in found.rows if row.seeds]
    deeper = [row for row in found.rows if not row.seeds and not row.left_out]
    tiles += [_rate_tile(found, row) for row in (*measured[-1:], *deeper[:2])]
    return f'{law}<p class="verdict">{escape(found.verdict)}</p><dl class="tiles">{"".join(tiles)}</dl>'


def _slope_tile(found: Findings, over: Over) -> str:
    fit = found.slopes[over]
    if fit is None:
        return ""
    span = slope_span(fit).replace("interval ", "", 1) if fit.bounded else "no interval"
    return _tile(f"slope over {found.name_of(over)}", signed(fit.slope), f"{span}{fit.r2_text}")


def _rate_tile(found: Findings, row: RateRow) -> str:
    assert row.rate is not None
    size = f"{found.name_of('size')} {row.size}"
    where, below = (size, []) if row.depth is None else (f"depth {row.depth:g}", [size])
    below += [f"95 % {rates_span(row)}"] if rates_span(row) else []
    return _tile(f"{'tuned rate' if row.seeds else 'rate by the fit'}, {where}", rate_text(row.rate), "\n".join(below))


def _tile(label: str, value: str, below: str) -> str:
    return f"<div><dt>{escape(label)}</dt><dd><b>{escape(value)}</b><small>{escape(below)}</small></dd></div>"


def _rates(found: Findings) -> str:
    """The table of rates; of very many sizes the first, every so manieth, and the last."""
    rows = found.rows
    if not rows:
        return ""
    step = math.ceil(len(rows) / MOST_ROWS)
    shown = [row for place, row in enumerate(rows) if place % step == 0 or not row.seeds or place + 4 >= len(rows)]
    depth = "<th scope=col>depth</th>" if found.over == "depth" else ""
    head = (
        f"<tr><th scope=col>{escape(found.name_of('size'))}</th>{depth}<th scope=col>rate to use</th>"
        f"<th scope=col>fit</th><th scope=col>law from {found.law_from}</th></tr>"
    )
    body = "".join(_rate_row(row, found.over == "depth") for row in shown)
    some = f"<p>{len(rows) - len(shown)} sizes between are not listed.</p>" if len(shown) < len(rows) else ""
    seeds = len(found.results.study.search.seeds)
    return (
        f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{some}"
        f'<p class="fine">Measured sizes: geometric mean over up to {seeds} seeds, 95 % interval below it. '
        "Deeper sizes (<i>by the fit</i>) were not run. The law carries the first rate on by its −3/2.</p>"
    )


def _rate_row(row: RateRow, depth: bool) -> str:
    carried = not row.seeds and not row.left_out
    rate = "–" if row.rate is None else rate_text(row.rate)
    tag = " <em>by the fit</em>" if carried else f" <em>{row.left_out} left out</em>" if row.left_out else ""
    tag += f" <em>{escape(row.doubt.partition(':')[0])}</em>" if row.doubt else ""
    shown = rate if row.doubt else f"<b>{rate}</b>"  # no emphasis on a rate that says little
    low, *high = rates_span(row).partition(" to ")  # a narrow screen may break the line between the two, not elsewhere
    span = f"<small><span>{low}</span><span>{''.join(high)}</span></small>" if low else ""
    place = f"<td>{row.depth:g}</td>" if depth and row.depth is not None else "<td>–</td>" if depth else ""
    others = "".join(f"<td>{'–' if value is None else rate_text(value)}</td>" for value in (row.fitted, row.law))
    kind = ' class="carried"' if carried else ""
    return f"<tr{kind}><th scope=row>{row.size}</th>{place}<td>{shown}{tag}{span}</td>{others}</tr>"


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<h2>To mind</h2><ul>{items}</ul>"


def _run(found: Findings) -> str:
    facts = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in run_facts(found))
    again = f'<pre tabindex="0"><code>{escape(commands(found))}</code></pre>'
    head = "Run it again" if found.results.described else "Make this page again"
    return f'<dl class="facts">{facts}</dl><h3>{head}</h3>{again}'
