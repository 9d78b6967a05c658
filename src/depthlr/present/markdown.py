"""A report as Markdown, to paste into an issue or a notebook: the answer, the rates, what to mind, what was run."""

from __future__ import annotations

import re

from depthlr.law.numbers import rate_text, signed
from depthlr.present.findings import Findings
from depthlr.present.rates import RateRow
from depthlr.present.run_facts import commands, run_facts
from depthlr.present.sections import rates_span, slope_span


def markdown(found: Findings) -> str:
    """The page without its plots."""
    lines = [f"# {_text(found.results.study.name)}", ""]
    for over in (found.over, "size") if found.over == "depth" else ("size",):
        fit = found.slopes[over]
        if fit is not None:
            label = f"slope {signed(fit.slope)} over {_text(found.name_of(over))}"
            lines.append(f"- **{label}**, {slope_span(fit)}{fit.r2_text}")
    lines += ["", _text(found.verdict), ""]
    if found.rows:
        lines += ["## The rate to use", "", *_table(found), ""]
    if found.notes:
        lines += ["## To mind", "", *(f"- {_text(note)}" for note in found.notes), ""]
    facts = [f"- {name}: {_text(value)}" for name, value in run_facts(found)]
    return "\n".join([*lines, "## What was run", "", *facts, "", "```bash", f"{_fenced(commands(found))}```"]) + "\n"


def _table(found: Findings) -> list[str]:
    law = f"law from {found.law_from}"
    head = [_text(found.name_of("size")), "depth", "rate to use", "95 % interval", "seeds", "fit", law]
    return [_row(head), _row(["---:"] * len(head)), *(_row(_cells(row)) for row in found.rows)]


def _cells(row: RateRow) -> list[str]:
    rates = ["–" if rate is None else rate_text(rate) for rate in (row.rate, row.fitted, row.law)]
    rates[0] += " ?" if row.doubt else ""
    seeds = str(row.seeds) if row.seeds or row.left_out else "by the fit"
    depth = "–" if row.depth is None else f"{row.depth:g}"
    return [str(row.size), depth, rates[0], rates_span(row) or "–", seeds, rates[1], rates[2]]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    """Characters that Markdown or the HTML in it would read, each behind a backslash."""
    return re.sub(r"([\\`*_{}\[\]<>()#|&!~$])", r"\\\1", text)


def _fenced(text: str) -> str:
    """Text that cannot end its own fence: TOML allows a backquote written as an escape."""
    return text.replace("```", "\\u0060" * 3)
