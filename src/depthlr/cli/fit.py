"""`depthlr fit OPTIMA.csv | STUDY.sqlite`: the slope of tuned rates over depth, with its interval."""

from __future__ import annotations

import csv
import math
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from depthlr import check
from depthlr.cli.options import Json, Metric, is_study_file
from depthlr.cli.output import print_json, print_note, print_notes, print_table
from depthlr.errors import DepthlrError
from depthlr.formatting import rate_text
from depthlr.law.fit import Fit, fit_power_law

if TYPE_CHECKING:
    from depthlr.study.results import Results

# What needs torch is imported where a study is read: a table of optima takes arithmetic alone.

# Columns that hold the result of a run. The word must end there: val_loss and testAcc, not glossary or accelerator.
RESULT_COLUMN = re.compile(r"(loss(es)?|acc|accurac(y|ies)|err(or)?s?|metrics?|perplexity|ppl)(?![a-z])")
ERROR_OF_RATE = re.compile(r"(rate|lr|std|standard)[ _.-]?err")  # a table of optima may have it: rate_error, stderr


OverChoice = Literal["depth", "size"]  # effective depth; or layers or blocks, whatever the study varies


def fit_command(
    file: Annotated[
        str,
        typer.Argument(
            help="CSV with columns depth and rate, one row an optimum (- reads stdin); or a sweep's .sqlite"
        ),
    ],
    spacing: Annotated[float | None, typer.Option(help="step of the rate grid in decades")] = None,
    at: Annotated[
        list[float] | None,
        typer.Option(help="also print the fitted rate at this depth, with the line's interval (repeat)"),
    ] = None,
    over: Annotated[
        OverChoice | None,
        typer.Option(
            help="of a sweep: over effective depth, or over what it varies",
            show_default="depth, if it has models",
        ),
    ] = None,
    metric: Metric = None,
    json: Json = False,
) -> None:
    """Fit rate = c depth^slope to tuned rates."""
    judged: dict[str, str] = {}
    if is_study_file(file) or file.endswith(".toml"):  # a study's description is refused as it is read
        if spacing is not None:
            raise DepthlrError("--spacing is for tables: a study knows its own grid; leave it out.")
        from depthlr.present.text import loss_label, metric_name
        from depthlr.study.results import read_results

        results = read_results(file, metric)
        found, over = _fit_study(results, over)
        judged = {"metric": metric_name(results)}
        print_notes(results.notes)
        print_note(f"rates are judged by the {loss_label(results)}")
    else:
        if over == "size" or metric is not None:
            raise DepthlrError("--over size and --metric are for studies, and this is a table of optima: leave it out.")
        found, over = fit_power_law(*read_optima(file), spacing=spacing), "depth"
    rates = {depth: found.predict(depth) for depth in at or []}
    if json:
        print_json(fit_json(found, rates, over) | judged)
        return
    rows = []
    for p in found.points:
        sd = "-" if p.sd is None else f"{p.sd:.3f}"
        rows.append((f"{p.depth:g}", rate_text(10**p.log10_rate), sd, p.observations))
    print_table((over, "rate", "sd (decades)", "seeds"), rows)
    print(found)
    if over == "depth":
        print_note("the law says -1.50; always say over which depth a slope is")
    for depth, rate in rates.items():
        interval = found.interval_at(depth)
        within = "no interval: add seeds or depths"
        if interval is not None:
            within = f"{found.level * 100:g}% {rate_text(interval[0])} to {rate_text(interval[1])}"
        print(f"rate at {over} {depth_text(depth)}: {rate_text(rate)} ({within})")


def _fit_study(results: Results, over: OverChoice | None) -> tuple[Fit, OverChoice]:
    """The line through the optima of a study, and what it is over."""
    over = over or ("size" if results.study.model.spec is None else "depth")
    if over == "depth" and results.depths is None:
        raise DepthlrError("The study does not know its models' effective depths: fit over its sizes, --over size.")
    return results.fit(over), over


def fit_json(found: Fit, rates: dict[float, float], over: str = "depth") -> dict[str, object]:
    """A fit as JSON values.

    Args:
        found: The fit.
        rates: The fitted rates, by the depths that were asked for.
        over: What the line is over, depth or size: the key of each point's place.
    """
    points = [
        {over: p.depth, "log10_rate": p.log10_rate, "sd": p.sd, "observations": p.observations} for p in found.points
    ]
    intervals = {depth_text(depth): found.interval_at(depth) for depth in rates}
    return {
        "slope": found.slope,
        "stderr": found.stderr if math.isfinite(found.stderr) else None,
        "interval": list(found.interval) if found.bounded else None,
        "level": found.level,
        "intercept": found.intercept,
        "r2": found.r2,
        "points": points,
        "rates": {depth_text(depth): rate for depth, rate in rates.items()},
        "rate_intervals": intervals,
    }


def depth_text(depth: float) -> str:
    """A depth with all its digits, so that different depths have different texts: 1000001, 4.5."""
    return repr(float(depth)).removesuffix(".0")


def read_optima(file: str) -> tuple[list[float], list[float]]:
    """Depths and rates of a table whose columns are separated by commas.

    Args:
        file: The name of the table; - reads stdin.

    Raises:
        DepthlrError: It is no such table, or its rows are runs and not optima.
    """
    name = "stdin" if file == "-" else file
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        lines = content.decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DepthlrError(f"{name} cannot be read ({error}): name a CSV file with columns depth and rate.") from error
    reader = csv.reader(lines, skipinitialspace=True)
    rows: list[tuple[int, list[str]]] = []
    for row in reader:
        cells = [cell.strip() for cell in row]
        if any(cells):
            rows.append((reader.line_num, cells))
    columns = rows[0][1] if rows else []
    columns = [title.lower() for title in columns]
    _check_columns(name, columns)
    places = columns.index("depth"), columns.index("rate")
    depths, rates = [], []
    for line, cells in rows[1:]:
        if len(cells) <= max(places) or any(cells[len(columns) :]):  # which cell is the rate would be a guess
            raise DepthlrError(
                f"Line {line} of {name} has {len(cells)} cells below {len(columns)} columns: write one cell a column, "
                "and decimals with a point, such as 1.5."
            )
        depth, rate = (cells[place] for place in places)
        depths.append(check.positive(f"The depth in line {line} of {name}", _number_or_text(depth)))
        rates.append(check.positive(f"The rate in line {line} of {name}", _number_or_text(rate)))
    return depths, rates


def _check_columns(name: str, columns: list[str]) -> None:
    """Refuse a header without exactly one depth and one rate, and a table of runs."""
    if columns.count("depth") != 1 or columns.count("rate") != 1:
        raise DepthlrError(
            f"{name} needs a header line with the columns depth and rate, once each and separated by commas, "
            f"but its columns are: {', '.join(map(repr, columns)) or 'none'}."
        )
    for column in columns:
        if RESULT_COLUMN.search(column) and not ERROR_OF_RATE.match(column):
            raise DepthlrError(
                f"{name} has a column {column}, so its rows are runs, not optima: fit the study's .sqlite itself, or "
                "keep each depth's best runs and leave that column out."
            )


def _number_or_text(cell: str) -> float | str:
    """The number in a cell, or else its text, which the error quotes."""
    try:
        return float(cell)
    except ValueError:
        return cell
