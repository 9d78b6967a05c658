"""`depthlr fit OPTIMA.csv`: the slope of tuned rates over depth, with its interval."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

from depthlr.cli.depth import Json
from depthlr.cli.output import print_json, print_note, print_table, rate_text
from depthlr.errors import DepthlrError
from depthlr.law.fit import Fit, fit_power_law


def fit(
    file: Annotated[str, typer.Argument(help="CSV with columns depth and rate, one row an optimum; - reads stdin")],
    spacing: Annotated[float | None, typer.Option(help="step of the rate grid in decades")] = None,
    at: Annotated[list[float] | None, typer.Option(help="also print the fitted rate at this depth (repeat)")] = None,
    json: Json = False,
) -> None:
    """Fit rate = c depth^slope to tuned rates."""
    depths, rates = _read(file)
    found = fit_power_law(depths, rates, spacing=spacing)
    wanted = {depth: found.predict(depth) for depth in at or []}
    if json:
        print_json(_fit_json(found, wanted))
        return
    rows = [
        (f"{p.depth:g}", rate_text(10**p.log10_rate), "-" if p.sd is None else f"{p.sd:.3f}", p.observations)
        for p in found.points
    ]
    print_table(("depth", "rate", "sd (decades)", "seeds"), rows)
    print(found)
    print_note("the law says -1.50; always say over which depth a slope is")
    for depth, rate in wanted.items():
        print(f"rate at depth {depth:g}: {rate_text(rate)}")


def _read(file: str) -> tuple[list[float], list[float]]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DepthlrError(f"{file} cannot be read ({error}): name a CSV file with columns depth and rate.") from error
    rows = list(csv.DictReader(text.splitlines()))
    if not rows or not {"depth", "rate"} <= set(rows[0]):
        raise DepthlrError(f"{file} needs a header line with the columns depth and rate, and a row an optimum.")
    try:
        return [float(r["depth"]) for r in rows], [float(r["rate"]) for r in rows]
    except (TypeError, ValueError) as error:
        raise DepthlrError(f"{file} has a row whose depth or rate is no number ({error}).") from error


def _fit_json(found: Fit, wanted: dict[float, float]) -> dict[str, object]:
    low, high = found.interval
    bounded = high != float("inf")
    return {
        "slope": found.slope,
        "stderr": found.stderr if bounded else None,
        "interval": [low, high] if bounded else None,
        "level": found.level,
        "intercept": found.intercept,
        "r2": found.r2,
        "points": [vars(p) for p in found.points],
        "rates": {f"{depth:g}": rate for depth, rate in wanted.items()},
    }
