"""`depthlr fit OPTIMA.csv | STUDY.sqlite`: the slope of tuned rates over depth, with its interval."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from depthlr.cli.optima import read_optima
from depthlr.cli.options import Json
from depthlr.cli.output import print_json, print_note, print_table, rate_text
from depthlr.cli.study_file import is_study_file
from depthlr.errors import DepthlrError
from depthlr.law.fit import Fit, fit_power_law


class Over(StrEnum):
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
    over: Annotated[Over, typer.Option(help="of a sweep: over effective depth, or over what it varies")] = Over.depth,
    json: Json = False,
) -> None:
    """Fit rate = c depth^slope to tuned rates."""
    found, notes = _fit(file, spacing, over)
    for note in notes:
        print_note(f"note: {note}")
    wanted = {depth: found.predict(depth) for depth in at or []}
    if json:
        print_json(fit_json(found, wanted))
        return
    rows = [
        (f"{p.depth:g}", rate_text(10**p.log10_rate), "-" if p.sd is None else f"{p.sd:.3f}", p.observations)
        for p in found.points
    ]
    print_table((str(over), "rate", "sd (decades)", "seeds"), rows)
    print(found)
    print_note("the law says -1.50; always say over which depth a slope is")
    for depth, rate in wanted.items():
        print(f"rate at {over} {depth_text(depth)}: {rate_text(rate)} ({_interval_text(found, depth)})")


def _fit(file: str, spacing: float | None, over: Over) -> tuple[Fit, tuple[str, ...]]:
    """The line through a table's optima or a study's, and what a study's leaves out."""
    if is_study_file(file):
        if spacing is not None:
            raise DepthlrError("--spacing is for tables: a study knows its own grid; leave it out.")
        from depthlr.study.results import read_results  # here, because it imports torch, which a table does not need

        results = read_results(file)
        if over is Over.depth and results.depths is None:
            raise DepthlrError(
                f"{file} does not know its models' effective depths: fit over what it varies, --over size."
            )
        return results.fit("depth" if over is Over.depth else "size"), results.notes
    if over is not Over.depth:
        raise DepthlrError("--over size is for studies: a table's slope is over its column depth.")
    depths, rates = read_optima(file)
    return fit_power_law(depths, rates, spacing=spacing), ()


def _interval_text(found: Fit, depth: float) -> str:
    """What the line's rate at a depth lies within."""
    interval = _interval(found, depth)
    if interval is None:
        return "no interval: add seeds or depths"
    return f"{found.level * 100:g}% {' to '.join(map(rate_text, interval))}"


def _interval(found: Fit, depth: float) -> tuple[float, float] | None:
    band = found.band([depth])
    return None if band is None else (float(band[0][0]), float(band[1][0]))


def fit_json(found: Fit, wanted: dict[float, float]) -> dict[str, object]:
    """A fit as JSON has it, with the rates at the depths that were asked for."""
    return {
        "slope": found.slope,
        "stderr": found.stderr if found.bounded else None,
        "interval": list(found.interval) if found.bounded else None,
        "level": found.level,
        "intercept": found.intercept,
        "r2": found.r2,
        "points": [vars(p) for p in found.points],
        "rates": {depth_text(depth): rate for depth, rate in wanted.items()},
        "rate_intervals": {depth_text(depth): _interval(found, depth) for depth in wanted},
    }


def depth_text(depth: float) -> str:
    """All of a depth's digits, so that no two depths are written alike: 1000001, 4.5."""
    return repr(float(depth)).removesuffix(".0")
