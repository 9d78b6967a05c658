"""One self-contained page: text, numbers, style and script in a single HTML file that needs no network.

Text that users wrote reaches the page in three ways only. It is escaped as HTML, it is JSON in which no character can
end a script element, or the script sets it as text. The content-security policy allows one script and one style by
their digests, so an error in the escaping could not run anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from depthlr.formatting import rate_text, signed
from depthlr.law.rules import LAW_EXPONENT
from depthlr.present.findings import Findings, RateRow
from depthlr.present.text import (
    can_repeat,
    commands,
    loss_label,
    optional_rate_text,
    rate_interval_text,
    run_facts,
    slope_interval_text,
)
from depthlr.study.curves import Curve
from depthlr.study.results import Over

NOTHING: dict[str, Any] = {
    "vary": "", "over": "size", "loss": "loss", "law": LAW_EXPONENT, "sizes": [], "seeds": [], "rates": [],
    "curves": [], "rows": [], "fits": {"depth": None, "size": None},
}  # fmt: skip
UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}  # JSON has these characters inside strings only
WAITING = '<p class="verdict">Waiting for the study’s file: the sweep has not made it yet.</p>'
PAGE_POINTS = 50_000  # on a page, over all curves
FEWEST = 12  # points of one curve
STEPS = 25  # points along the band of a fit
RATE_DIGITS, LOSS_DIGITS = 6, 5  # significant digits: more than a screen can show


def page(found: Findings | None, *, live: bool = False, version: int = 0) -> str:
    """The whole page as HTML.

    Args:
        found: What the study shows, or None before the study has a file.
        live: Whether the page asks its own server for updates.
        version: The number of the update that the page starts from.
    """
    words = sections(found, live=live)
    return document("study.html", words, page_title(found), plot_data(found), live=live, version=version)


def document(
    main: str, words: Mapping[str, str], title: str, plot: Mapping[str, Any], *, live: bool = False, version: int = 0
) -> str:
    """A page that holds all that it needs.

    Args:
        main: The file of the template of its sections.
        words: HTML by the names in that template, and the `status`.
        title: Its title, as text.
        plot: The numbers behind its plots.
        live: Whether the page asks its own server for updates.
        version: The number of the update that the page starts from.
    """
    return Template(_asset("page.html")).substitute(
        main=Template(_asset(main)).substitute(words),
        status=words["status"],
        title=escape(title),
        live="true" if live else "false",
        policy=escape(policy(live=live)),
        style=_asset("page.css"),
        script=_script(),
        data=script_json({"version": version, "plot": plot}),
    )


def update(found: Findings | None, version: int) -> str:
    """What changes on a live page, as JSON.

    Args:
        found: What the study shows, or None before the study has a file.
        version: The number of the update.
    """
    words = sections(found, live=True)
    return script_json({"version": version, "title": page_title(found), "sections": words, "plot": plot_data(found)})


def policy(*, live: bool = False) -> str:
    """The content-security policy: our own script and style, and nothing else."""
    rules = ["default-src 'none'"]
    for kind, text in (("script", _script()), ("style", _asset("page.css"))):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        rules.append(f"{kind}-src 'sha256-{digest}'")
    rules += ["img-src data:", *(["connect-src 'self'"] if live else []), "base-uri 'none'", "form-action 'none'"]
    return "; ".join(rules)


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element, whatever its strings say."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False).translate(UNSAFE)


@cache
def _asset(name: str) -> str:
    return files("depthlr.present").joinpath(name).read_text(encoding="utf-8")


def _script() -> str:
    return f'(() => {{\n"use strict";\n{_asset("plot.js")}\n{_asset("page.js")}}})();\n'


def sections(found: Findings | None, *, live: bool = False) -> dict[str, str]:
    """HTML by the id of the element that it fills. Without a study the answer says that it waits for one.

    Args:
        found: What the study shows, or None before the study has a file.
        live: Whether the page asks its own server for updates.
    """
    if found is None:
        return {"status": "waiting", "answer": WAITING, "rates": "", "notes": "", "run": ""}
    again = "Run it again" if can_repeat(found.results) else "Make this page again"
    return {
        "status": _status_text(found),
        "answer": _answer_html(found),
        "rates": _rates_html(found),
        # The last note of an unfinished study says to run it again, but the reader of a live page is running it.
        "notes": notes_html(found.notes[:-1] if live and found.to_come else found.notes),
        "run": run_html(run_facts(found), again, commands(found)),
    }


def page_title(found: Findings | None) -> str:
    """The name of the study, if there is one yet."""
    return "depthlr" if found is None else found.results.study.name


def _status_text(found: Findings) -> str:
    cells = len(found.results.records)
    state = f"about {found.to_come} to come" if found.to_come else "finished"
    return f"{cells} cell{'' if cells == 1 else 's'}, {state}"


def _answer_html(found: Findings) -> str:
    fit = found.slopes[found.over]
    name = "depth" if found.over == "depth" else escape(found.name_of("size"))
    law = ""
    if fit is not None:
        law = (
            f'<p class="headline"><span class="formula">rate ∝ {name}<sup>{signed(fit.slope)}</sup></span> '
            f'<span class="aside">{slope_interval_text(fit)}{fit.r2_text}</span></p>'
        )
    tiles = []
    sizes = found.slopes["size"]
    if found.over == "depth" and sizes is not None:
        span = slope_interval_text(sizes).replace("interval ", "", 1) if sizes.bounded else "no interval"
        tiles.append(tile_html(f"slope over {found.name_of('size')}", signed(sizes.slope), f"{span}{sizes.r2_text}"))
    measured = [row for row in found.rows if row.seeds]
    deeper = [row for row in found.rows if row.carried]
    tiles += [_rate_tile_html(found, row) for row in (*measured[-1:], *deeper[:2])]
    return f'{law}<p class="verdict">{escape(found.verdict)}</p><dl class="tiles">{"".join(tiles)}</dl>'


def _rate_tile_html(found: Findings, row: RateRow) -> str:
    assert row.rate is not None
    size = f"{found.name_of('size')} {row.size}"
    kind = "tuned rate" if row.seeds else "rate by the fit"
    place, below = (size, "") if row.depth is None else (f"depth {row.depth:g}", f"{size}\n")
    if interval := rate_interval_text(row):
        below += f"95 % {interval}"
    return tile_html(f"{kind}, {place}", rate_text(row.rate), below.strip())


def tile_html(label: str, value: str, below: str) -> str:
    """A number to read first.

    Args:
        label: The line above it.
        value: The number as text.
        below: The lines below it.
    """
    return f"<div><dt>{escape(label)}</dt><dd><b>{escape(value)}</b><small>{escape(below)}</small></dd></div>"


def _rates_html(found: Findings) -> str:
    if not found.rows:
        return ""
    columns = [found.name_of("size"), "depth", "rate to use", "fit", f"law from {found.law_from}"]
    table = table_html(columns, map(_rate_row_html, found.rows))
    seeds = len(found.results.study.search.seeds)
    return (
        f"{table}"
        f'<p class="fine">Measured sizes: geometric mean over up to {seeds} seeds, 95 % interval below it. '
        "Deeper sizes (<i>by the fit</i>) were not run. The law carries the first rate on by its −3/2.</p>"
    )


def table_html(columns: Sequence[str], rows: Iterable[str]) -> str:
    """A table.

    Args:
        columns: The titles of the columns, as text.
        rows: Its rows, as `row_html` makes them.
    """
    head = "".join(f"<th scope=col>{escape(column)}</th>" for column in columns)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def row_html(title: object, *cells: str, kind: str = "") -> str:
    """A row of a table.

    Args:
        title: The cell that names the row, as HTML.
        cells: The others, as HTML.
        kind: A class of the style sheet.
    """
    named = f' class="{kind}"' if kind else ""
    return f"<tr{named}><th scope=row>{title}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _rate_row_html(row: RateRow) -> str:
    rate = optional_rate_text(row.rate)
    shown = rate if row.doubt else f"<b>{rate}</b>"  # a doubtful rate is not emphasized
    if row.carried:
        shown += " <em>by the fit</em>"
    elif row.left_out:
        shown += f" <em>{row.left_out} left out</em>"
    if row.doubt:
        shown += f" <em>{escape(row.doubt.partition(':')[0])}</em>"
    shown += interval_html(rate_interval_text(row))
    depth = "–" if row.depth is None else f"{row.depth:g}"
    others = optional_rate_text(row.fitted), optional_rate_text(row.law)
    return row_html(row.size, depth, shown, *others, kind="carried" if row.carried else "")


def interval_html(text: str) -> str:
    """`low to high` as the line below a rate. A narrow screen may break it between its ends only."""
    low, *high = text.partition(" to ")
    return f"<small><span>{low}</span><span>{''.join(high)}</span></small>" if low else ""


def notes_html(notes: Sequence[str]) -> str:
    """The section of notes; empty without one."""
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<h2>Notes</h2><ul>{items}</ul>"


def run_html(facts: Iterable[tuple[str, str]], title: str, commands: str) -> str:
    """What was run, and the commands that run it again.

    Args:
        facts: Names and values.
        title: The heading of the commands.
        commands: Lines for a shell.
    """
    again = f'<pre tabindex="0"><code>{escape(commands)}</code></pre>'
    return f"{facts_html(facts)}<h3>{title}</h3>{again}"


def facts_html(facts: Iterable[tuple[str, str]]) -> str:
    """Names with values."""
    pairs = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return f'<dl class="facts">{pairs}</dl>'


def plot_data(found: Findings | None) -> dict[str, Any]:
    """The numbers behind the plots, as JSON values.

    Rates are listed once, and curves refer to them by index. The loss of a cell that diverged or failed is null. Long
    curves are thinned, but they keep their optima.
    """
    if found is None:
        return NOTHING
    rates = sorted({rate for curve in found.curves for rate in curve.rates})
    rate_index = {rate: index for index, rate in enumerate(rates)}
    most = max(FEWEST, PAGE_POINTS // max(1, len(found.curves)))
    depths = found.results.depths or {}
    sizes = sorted({curve.size for curve in found.curves})
    return {
        "vary": found.results.study.model.size_name,
        "over": found.over,
        "loss": loss_label(found.results),
        "law": LAW_EXPONENT,
        "sizes": [{"size": size, "depth": depths.get(size)} for size in sizes],
        "seeds": sorted({curve.seed for curve in found.curves}),
        "rates": [_rounded(rate, RATE_DIGITS) for rate in rates],
        "curves": [_curve_json(curve, rate_index, most) for curve in found.curves],
        "rows": [
            {key: getattr(row, key) for key in ("size", "depth", "rate", "interval", "seeds")} for row in found.rows
        ],
        "fits": {over: _fit_json(found, over) for over in found.slopes},
        "thinned": any(len(curve.rates) > most for curve in found.curves),
    }


def _curve_json(curve: Curve, rate_index: dict[float, int], most: int) -> list[Any]:
    """[size, seed, indices of the rates, losses, index of the optimum among them or -1, its edge or null].

    A curve with failed cells has one entry more: their indices among its rates.
    """
    best = curve.optimum
    kept = thin(len(curve.rates), None if best is None else best.index, most)
    rates = [rate_index[curve.rates[index]] for index in kept]
    losses = [_rounded(curve.losses[index], LOSS_DIGITS) for index in kept]
    place, edge = (-1, None) if best is None else (kept.index(best.index), best.edge)
    failed = [index for index, rate in enumerate(kept) if curve.rates[rate] in curve.failed]
    return [curve.size, curve.seed, rates, losses, place, edge, *([failed] if failed else [])]


def thin(count: int, best: int | None, most: int) -> list[int]:
    """Indices of at most about `most` points of a curve: evenly spaced ones, the ends, and those around the optimum.

    Args:
        count: How many points the curve has.
        best: The index of its optimum, if it has one.
        most: About how many points to keep.
    """
    kept = {0, count - 1, *range(0, count, math.ceil(count / most))}
    if best is not None:
        kept |= set(range(max(0, best - 2), min(count, best + 3)))
    return sorted(kept)


def _rounded(value: float, digits: int) -> float | None:
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _fit_json(found: Findings, over: Over) -> dict[str, Any] | None:
    """The fitted line as slope and intercept, and its band over the depths of the plot."""
    fit = found.slopes[over]
    if fit is None:
        return None
    places = [getattr(row, over) for row in found.rows if getattr(row, over) is not None]
    depths = np.geomspace(min(places), max(places), STEPS)
    edges, interval, band = fit.band(depths.tolist()), None, []
    if edges is not None:
        interval, band = list(fit.interval), np.stack([depths, *edges], axis=1).tolist()
    return {
        "slope": fit.slope,
        "intercept": fit.intercept,
        "law": fit.intercept + (fit.slope - LAW_EXPONENT) * fit.centre,  # the intercept of the law's line
        "interval": interval,
        "band": band,
        "last": fit.points[-1].depth,
    }
