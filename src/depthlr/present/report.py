"""A study's report as one text: an HTML page, Markdown or JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from depthlr.formatting import signed
from depthlr.law.fit import Fit
from depthlr.present.findings import Findings, RateRow, findings
from depthlr.present.page import page
from depthlr.present.text import (
    commands,
    metric_name,
    optional_rate_text,
    rate_interval_text,
    run_facts,
    slope_interval_text,
    study_facts,
)
from depthlr.study.curves import Curve
from depthlr.study.follow import read_snapshot
from depthlr.study.results import Results


def render_report(study: Path | str, format: str = "html", metric: str | None = None) -> str:
    """The report of a study as one text.

    Args:
        study: The study's file; the sweep need not be finished.
        format: `html`, `markdown` or `json`.
        metric: A stored metric, as `Results.by` takes it; the study's own if None.
    """
    return FORMATS[format](findings(read_snapshot(study).by(metric)))


def as_json(found: Findings) -> str:
    """Slopes, rates, optima and notes for programs. `depthlr export` writes the cells."""
    value = {
        "study": study_facts(found),
        "metric": metric_name(found.results),
        "slopes": {over: fit and _fit_json(fit) for over, fit in found.slopes.items()},
        "verdict": found.verdict,
        "rates": list(map(vars, found.rows)),
        "optima": [optimum_json(found.results, curve) for curve in found.curves],
        "cells": len(found.results.records),
        "to_come": found.to_come,
        "notes": list(found.notes),
        "environments": list(map(vars, found.results.environments)),
        "run": dict(run_facts(found)),
        "commands": commands(found),
    }
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def _fit_json(fit: Fit) -> dict[str, Any]:
    values = {}
    for name in ("slope", "stderr", "intercept", "r2", "chi2"):
        value = getattr(fit, name)
        values[name] = value if value is not None and math.isfinite(value) else None
    return values | {"interval": list(fit.interval) if fit.bounded else None, "level": fit.level}


def optimum_json(results: Results, curve: Curve) -> dict[str, Any]:
    """The optimum of a size and seed as JSON values.

    Args:
        results: The study.
        curve: One of its curves.
    """
    best = curve.optimum
    rate, loss, edge = (None, None, None) if best is None else (best.rate, best.loss, best.edge)
    depth = (results.depths or {}).get(curve.size)
    return {"size": curve.size, "depth": depth, "seed": curve.seed, "rate": rate, "loss": loss, "edge": edge}


def markdown(found: Findings) -> str:
    """The page without its plots, for an issue or a notebook."""
    lines = [f"# {_escape(found.results.study.name)}", ""]
    for over, fit in found.slopes.items():
        if fit is not None:
            label = f"slope {signed(fit.slope)} over {_escape(found.name_of(over))}"
            lines.append(f"- **{label}**, {slope_interval_text(fit)}{fit.r2_text}")
    lines += ["", _escape(found.verdict), ""]
    if found.rows:
        lines += ["## The rate to use", "", *_rates_table(found), ""]
    if found.notes:
        lines += ["## Notes", "", *(f"- {_escape(note)}" for note in found.notes), ""]
    facts = [f"- {name}: {_escape(value)}" for name, value in run_facts(found)]
    lines += ["## What was run", "", *facts, "", "```bash"]
    # Three backquotes become TOML escapes, so that no text can end its code block.
    lines.append(commands(found).replace("```", "\\u0060" * 3) + "```")
    return "\n".join(lines) + "\n"


def _rates_table(found: Findings) -> list[str]:
    law = f"law from {found.law_from}"
    head = [_escape(found.name_of("size")), "depth", "rate to use", "95 % interval", "seeds", "fit", law]
    lines = [head, ["---:"] * len(head), *map(_cells, found.rows)]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _cells(row: RateRow) -> list[str]:
    depth = "–" if row.depth is None else f"{row.depth:g}"
    rate = optional_rate_text(row.rate) + (" ?" if row.doubt else "")
    seeds = "by the fit" if row.carried else str(row.seeds)
    predicted = [optional_rate_text(row.fitted), optional_rate_text(row.law)]
    return [str(row.size), depth, rate, rate_interval_text(row) or "–", seeds, *predicted]


def _escape(text: str) -> str:
    """Put a backslash before each character that Markdown, or HTML in it, would interpret."""
    return re.sub(r"([\\`*_{}\[\]<>()#|&!~$])", r"\\\1", text)


FORMATS: dict[str, Callable[[Findings], str]] = {"html": page, "markdown": markdown, "json": as_json}
