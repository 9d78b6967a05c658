"""`depthlr fit OPTIMA.csv | STUDY.sqlite`: the slope of tuned rates over depth, with its interval."""

from __future__ import annotations

import csv
import math
import re
import sys
from enum import StrEnum
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated

import typer

from depthlr import check
from depthlr.cli.options import Json, Metric, is_study_file
from depthlr.cli.output import print_json, print_note, print_notes, print_table
from depthlr.errors import DepthlrError
from depthlr.formatting import rate_text
from depthlr.law.fit import Fit, fit_power_law

if TYPE_CHECKING:
    from depthlr.study.results import Results

SEPARATORS = ",;\t"
# Columns that hold the result of a run. The word must end there: val_loss and testAcc, not glossary or accelerator.
RESULT_COLUMN = re.compile(r"(loss(es)?|acc|accurac(y|ies)|err(or)?s?|metrics?|perplexity|ppl)(?![a-z])")
ERROR_OF_RATE = re.compile(r"(rate|lr|std|standard)[ _.-]?err")  # a table of optima may have it: rate_error, stderr


class OverOption(StrEnum):
    """What a study's slope is over."""

    depth = "depth"  # effective depth
    size = "size"  # layers or blocks, whatever the study varies


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
        OverOption | None,
        typer.Option(
            help="of a sweep: over effective depth, or over what it varies",
            show_default="depth, if it has models",
        ),
    ] = None,
    metric: Metric = None,
    json: Json = False,
) -> None:
    """Fit rate = c depth^slope to tuned rates."""
    if is_study_file(file):
        found, study, over = _fit_study(file, spacing, over, metric)
        print_notes(study.notes)
    else:
        found, study, over = _fit_table(file, spacing, over, metric), None, OverOption.depth
    rates = {depth: found.predict(depth) for depth in at or []}
    if json:
        metric_json = {}
        if study:
            from depthlr.present.text import metric_name

            metric_json["metric"] = metric_name(study)
        print_json(fit_json(found, rates, over.value) | metric_json)
        return
    rows = []
    for p in found.points:
        sd = "-" if p.sd is None else f"{p.sd:.3f}"
        rows.append((f"{p.depth:g}", rate_text(10**p.log10_rate), sd, p.observations))
    print_table((str(over), "rate", "sd (decades)", "seeds"), rows)
    print(found)
    if study:
        from depthlr.present.text import loss_label

        print_note(f"rates are judged by the {loss_label(study)}")
    if over is OverOption.depth:
        print_note("the law says -1.50; always say over which depth a slope is")
    for depth, rate in rates.items():
        interval = found.interval_at(depth)
        within = "no interval: add seeds or depths"
        if interval is not None:
            within = f"{found.level * 100:g}% {rate_text(interval[0])} to {rate_text(interval[1])}"
        print(f"rate at {over} {depth_text(depth)}: {rate_text(rate)} ({within})")


def _fit_study(
    file: str, spacing: float | None, over: OverOption | None, metric: str | None
) -> tuple[Fit, Results, OverOption]:
    """The line through the optima of a study, its results, and what the line is over."""
    from depthlr.study.results import read_results  # here, because it imports torch

    if spacing is not None:
        raise DepthlrError("--spacing is for tables: a study knows its own grid; leave it out.")
    results = read_results(file, metric)
    over = over or (OverOption.size if results.study.model.spec is None else OverOption.depth)
    if over is OverOption.depth and results.depths is None:
        raise DepthlrError(f"{file} does not know its models' effective depths: fit over what it varies, --over size.")
    return results.fit(over.value), results, over


def _fit_table(file: str, spacing: float | None, over: OverOption | None, metric: str | None) -> Fit:
    if over is OverOption.size:
        raise DepthlrError("--over size is for studies: a table's slope is over its column depth.")
    if metric is not None:
        raise DepthlrError("--metric is for studies: the rows of a table are optima already; leave it out.")
    depths, rates = read_optima(file)
    return fit_power_law(depths, rates, spacing=spacing)


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
    """Depths and rates of a table whose columns are separated by commas, semicolons or tabs.

    Args:
        file: The name of the table; - reads stdin.

    Raises:
        DepthlrError: It is no such table, or its rows are runs and not optima.
    """
    name = "stdin" if file == "-" else file
    (_, titles), *rows = _read_rows(file, name)
    columns = [title.lower() for title in titles]
    _check_columns(name, columns)
    if not rows:
        raise DepthlrError(f"{name} has no row below its header line: write one an optimum.")
    found: dict[str, list[float]] = {"depth": [], "rate": []}
    for line, cells in rows:
        if any(cells[len(columns) :]):  # which cells are the depth and the rate would be a guess
            raise DepthlrError(
                f"Line {line} of {name} has {len(cells)} cells below {len(columns)} columns: write one cell a column, "
                "and decimals with a point, such as 1.5."
            )
        row = dict(zip(columns, cells, strict=False))
        for column, values in found.items():
            values.append(_positive_number(row.get(column, ""), f"The {column} in line {line} of {name}"))
    return found["depth"], found["rate"]


def _read_rows(file: str, name: str) -> list[tuple[int, list[str]]]:
    """The number and the cells of each line that is not empty. An empty file has an empty header."""
    try:
        if file == "-" and sys.stdin is None:
            raise DepthlrError("The standard input is closed: name a CSV file with columns depth and rate.")
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        lines = content.decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DepthlrError(f"{name} cannot be read ({error}): name a CSV file with columns depth and rate.") from error
    first = next((line for line in lines if line.strip()), "")
    reader = csv.reader(lines, delimiter=max(SEPARATORS, key=first.count), skipinitialspace=True)
    try:
        rows = [(reader.line_num, list(map(str.strip, cells))) for cells in reader]
    except csv.Error as error:
        raise DepthlrError(f"{name} is no table ({error}): name a CSV file with columns depth and rate.") from error
    return [row for row in rows if any(row[1])] or [(1, [])]


def _check_columns(name: str, columns: list[str]) -> None:
    """Refuse a header without exactly one depth and one rate, and a table of runs."""
    if columns.count("depth") != 1 or columns.count("rate") != 1:
        found = shorten(", ".join(map(repr, columns)), 100) or "none"
        raise DepthlrError(
            f"{name} needs a header line with the columns depth and rate, once each and separated by commas, "
            f"but its columns are: {found}."
        )
    for column in columns:
        if RESULT_COLUMN.search(column) and not ERROR_OF_RATE.match(column):
            raise DepthlrError(
                f"{name} has a column {column}, so its rows are runs, not optima: fit the study's .sqlite itself, or "
                "keep each depth's best runs and leave that column out."
            )


def _positive_number(cell: str, what: str) -> float:
    try:
        value = float(cell)
    except ValueError as error:
        raise DepthlrError(f"{what} must be a number such as 0.1 or 1e-3, not {cell!r}.") from error
    return check.positive(what, value)
