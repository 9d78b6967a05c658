"""The parts of docs/realbench.md that are made from tables, each between two marks; a part without tables says so."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

from experiments.pages import markdown_table
from experiments.realbench.candidates import candidates_table, readings_table, table
from experiments.realbench.judge import verdict
from experiments.realbench.losses import no_source_table, regret_table
from experiments.realbench.moved import axes_table, factors_table, horizon_table, peers_table
from experiments.realbench.plan import is_judged_half_finished, names, plan_table
from experiments.realbench.reasons import changes_table, dynamics_table, hypotheses_table
from experiments.realbench.scores import Tuned, read_tuned
from experiments.tables import damaged, read_text, write_text

UNFINISHED = "Not finished: `python -m experiments.realbench plan` says what it takes.\n"


def design_half(results: Path) -> list[Tuned]:
    """The tuned rates of the design recipes."""
    return [read_tuned(results / f"{name}.csv") for name in names("design")]


def judged_verdict(results: Path) -> str:
    """The verdict, once the judged half is finished."""
    if not is_judged_half_finished(results):
        return ""
    return verdict([read_tuned(results / f"{name}.csv") for name in names("judged")], results=results)


def unchanged_table(results: Path) -> str:
    """What sweeps of unchanged library models took and found (`experiments/realbench/unchanged.py`)."""
    path = results / "unchanged.csv"
    if not path.is_file():
        return ""
    with open(path, newline="") as file:
        rows = [list(row.values()) for row in csv.DictReader(file)]
    return markdown_table(("study", "cells", "failed", "seconds", "how a step ran", "tuned rates"), rows) + "\n"


SECTIONS: Mapping[str, Callable[[Path], str]] = {
    "judged": judged_verdict,
    "table": lambda results: table(design_half(results), results),
    "candidates": lambda results: candidates_table(design_half(results), results),
    "readings": lambda results: readings_table(design_half(results), results),
    "regret": regret_table,
    "no-source": no_source_table,
    "horizon": horizon_table,
    "factors": factors_table,
    "axes": axes_table,
    "peers": peers_table,
    "hypotheses": hypotheses_table,
    "why": changes_table,
    "dynamics": dynamics_table,
    "unchanged": unchanged_table,
    "plan": plan_table,
}


def filled(text: str, results: Path, page: Path) -> str:
    """The page's text with every part made anew.

    Raises:
        DepthlrError: the page has no place for a part.
    """
    for name, section in SECTIONS.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise damaged(page, f"lacks the marks {begin.strip()} and {end}")
        text = f"{before}{begin}{section(results) or UNFINISHED}{end}{after}"
    return text


def write_page(results: Path, page: Path) -> None:
    """Make the page's parts from the tables."""
    write_text(page, filled(read_text(page), results, page))
