"""`depthlr fit OPTIMA.csv | STUDY.sqlite`: the slope of tuned rates over depth, with its interval."""

from __future__ import annotations

import csv
import re
import sys
from enum import StrEnum
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated

import typer

from depthlr import check
from depthlr.cli.options import Json, Metric, is_study_file
from depthlr.cli.output import print_json, print_note, print_table
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


def fit(
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
    found, study, over = _fit(file, spacing, over, metric)
    for note in study.notes if study else ():
        print_note(f"note: {note}")
    rates = {depth: found.predict(depth) for depth in at or []}
    if json:
        print_json(fit_json(found, rates) | ({"metric": study.metric} if study else {}))
        return
    rows = [
        (f"{p.depth:g}", rate_text(10**p.log10_rate), "-" if p.sd is None else f"{p.sd:.3f}", p.observations)
        for p in found.points
    ]
    print_table((str(over), "rate", "sd (decades)", "seeds"), rows)
    print(found)
    if study:
        from depthlr.present.text import loss_label

        print_note(f"rates are judged by the {loss_label(study)}")
    print_note("the law says -1.50; always say over which depth a slope is")
    for depth, rate in rates.items():
        print(f"rate at {over} {depth_text(depth)}: {rate_text(rate)} ({_interval_text(found, depth)})")


def _fit(
    file: str, spacing: float | None, over: OverOption | None, metric: str | None
) -> tuple[Fit, Results | None, OverOption]:
    """The line through the optima of a table or a study, the results of a study, and what the line is over."""
    if is_study_file(file):
        if spacing is not None:
            raise DepthlrError("--spacing is for tables: a study knows its own grid; leave it out.")
        from depthlr.study.results import read_results  # here, because it imports torch

        results = read_results(file, metric)
        over = over or (OverOption.size if results.study.model.spec is None else OverOption.depth)
        if over is OverOption.depth and results.depths is None:
            raise DepthlrError(
                f"{file} does not know its models' effective depths: fit over what it varies, --over size."
            )
        return results.fit("depth" if over is OverOption.depth else "size"), results, over
    if over is OverOption.size:
        raise DepthlrError("--over size is for studies: a table's slope is over its column depth.")
    if metric is not None:
        raise DepthlrError("--metric is for studies: the rows of a table are optima already; leave it out.")
    depths, rates = read_optima(file)
    return fit_power_law(depths, rates, spacing=spacing), None, OverOption.depth


def _interval_text(found: Fit, depth: float) -> str:
    """The interval of the fitted rate at a depth, as text."""
    interval = _rate_interval(found, depth)
    if interval is None:
        return "no interval: add seeds or depths"
    return f"{found.level * 100:g}% {' to '.join(map(rate_text, interval))}"


def _rate_interval(found: Fit, depth: float) -> tuple[float, float] | None:
    band = found.band([depth])
    return None if band is None else (float(band[0][0]), float(band[1][0]))


def fit_json(found: Fit, rates: dict[float, float]) -> dict[str, object]:
    """A fit as JSON values, with the rates at the requested depths."""
    return {
        "slope": found.slope,
        "stderr": found.stderr if found.bounded else None,
        "interval": list(found.interval) if found.bounded else None,
        "level": found.level,
        "intercept": found.intercept,
        "r2": found.r2,
        "points": [vars(p) for p in found.points],
        "rates": {depth_text(depth): rate for depth, rate in rates.items()},
        "rate_intervals": {depth_text(depth): _rate_interval(found, depth) for depth in rates},
    }


def depth_text(depth: float) -> str:
    """A depth with all its digits, so that different depths have different texts: 1000001, 4.5."""
    return repr(float(depth)).removesuffix(".0")


def read_optima(file: str) -> tuple[list[float], list[float]]:
    """Depths and rates of a table whose columns are separated by commas, semicolons or tabs; - reads stdin."""
    name = "stdin" if file == "-" else file
    (_, header), *rows = _split_lines(name, _read_text(file, name))
    columns = [title.strip().lower() for title in header]
    _check_columns(name, columns)
    if not rows:
        raise DepthlrError(f"{name} has no row below its header line: write one an optimum.")
    for line, cells in rows:
        _check_cells(f"Line {line} of {name}", cells, columns)

    def values(column: str) -> list[float]:
        index = columns.index(column)
        return [_positive_number(cells, index, f"The {column} in line {line} of {name}") for line, cells in rows]

    return values("depth"), values("rate")


def _read_text(file: str, name: str) -> str:
    try:
        if file == "-" and sys.stdin is None:
            raise DepthlrError("The standard input is closed: name a CSV file with columns depth and rate.")
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DepthlrError(f"{name} cannot be read ({error}): name a CSV file with columns depth and rate.") from error


def _split_lines(name: str, text: str) -> list[tuple[int, list[str]]]:
    """The number and the cells of each line that is not empty. An empty file gives an empty header."""
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    reader = csv.reader(lines, delimiter=max(SEPARATORS, key=first.count), skipinitialspace=True)
    try:
        found = [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]
    except csv.Error as error:
        raise DepthlrError(f"{name} is no table ({error}): name a CSV file with columns depth and rate.") from error
    return found or [(1, [])]


def _check_columns(name: str, columns: list[str]) -> None:
    """Refuse a header without exactly one depth and one rate, and a table of runs."""
    found = shorten(", ".join(map(repr, columns)), 100) or "none"
    for column in ("depth", "rate"):
        if columns.count(column) != 1:
            raise DepthlrError(
                f"{name} needs a header line with the columns depth and rate, once each and separated by commas, "
                f"but its columns are: {found}."
            )
    if results := [column for column in columns if _is_result(column)]:
        raise DepthlrError(
            f"{name} has a column {results[0]}, so its rows are runs, not optima: fit the study's .sqlite itself, or "
            "keep each depth's best runs and leave that column out."
        )


def _check_cells(what: str, cells: list[str], columns: list[str]) -> None:
    """Refuse a row with more cells than columns: which cells are the depth and the rate would be a guess."""
    if any(map(str.strip, cells[len(columns) :])):
        raise DepthlrError(
            f"{what} has {len(cells)} cells below {len(columns)} columns: write one cell a column, and decimals with a "
            "point, such as 1.5."
        )


def _is_result(column: str) -> bool:
    return bool(RESULT_COLUMN.search(column)) and not ERROR_OF_RATE.match(column)


def _positive_number(cells: list[str], index: int, what: str) -> float:
    cell = cells[index] if index < len(cells) else ""
    try:
        value = float(cell)
    except ValueError as error:
        raise DepthlrError(f"{what} must be a number such as 0.1 or 1e-3, not {cell!r}.") from error
    return check.positive(what, value)
