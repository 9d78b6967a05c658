"""A study's report in each of its forms."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from depthlr.law.fit import Fit
from depthlr.present.findings import Findings, findings
from depthlr.present.markdown import markdown
from depthlr.present.page import page
from depthlr.present.run_facts import commands, run_facts, study_facts
from depthlr.study.follow import read_snapshot


def report(study: Path | str, format: str = "html") -> str:
    """The report of a study's file, finished or not, as one text: html, markdown or json."""
    return FORMATS[format](findings(read_snapshot(study)))


def as_json(found: Findings) -> str:
    """The answer for programs: slopes, rates, optima, notes; `depthlr export` has the cells."""
    value = {
        "study": study_facts(found),
        "slopes": {over: None if fit is None else _fit(fit) for over, fit in found.slopes.items()},
        "verdict": found.verdict,
        "rates": [vars(row) for row in found.rows],
        "optima": [_optimum(found, index) for index in range(len(found.curves))],
        "cells": len(found.results.records),
        "to_come": found.to_come,
        "notes": list(found.notes),
        "environments": [vars(environment) for environment in found.results.environments],
        "run": dict(run_facts(found)),
        "commands": commands(found),
    }
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


FORMATS: dict[str, Callable[[Findings], str]] = {"html": page, "markdown": markdown, "json": as_json}


def _fit(fit: Fit) -> dict[str, Any]:
    values = {"slope": fit.slope, "stderr": fit.stderr, "intercept": fit.intercept, "r2": fit.r2, "chi2": fit.chi2}
    finite = {name: value if value is not None and math.isfinite(value) else None for name, value in values.items()}
    return finite | {"interval": list(fit.interval) if fit.bounded else None, "level": fit.level}


def _optimum(found: Findings, index: int) -> dict[str, Any]:
    curve = found.curves[index]
    best = curve.optimum
    where = {"size": curve.size, "depth": (found.results.depths or {}).get(curve.size), "seed": curve.seed}
    return where | {name: None if best is None else getattr(best, name) for name in ("rate", "loss", "edge")}
