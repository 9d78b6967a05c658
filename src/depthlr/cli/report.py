"""What shows a sweep: `depthlr report`, `plot` and `export` write a file of it, and `serve` a live page."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from depthlr.cli.files import check_not_the_study, check_picture, write_file, write_picture
from depthlr.cli.fit import OverChoice
from depthlr.cli.options import Json, Metric, StudyFile
from depthlr.cli.output import print_json, print_note, print_notes
from depthlr.errors import DepthlrError
from depthlr.present.landscape import loss_landscape
from depthlr.present.report import render_report
from depthlr.present.scaling import scaling
from depthlr.present.server import serving
from depthlr.present.text import loss_label
from depthlr.study.follow import read_snapshot
from depthlr.study.results import Results, read_results, to_csv, to_json
from depthlr.study.store import check_not_described

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Form = Literal["html", "markdown", "json"]
Kind = Literal["landscape", "scaling"]  # loss against rate, a line a depth; or tuned rate against depth
Format = Literal["csv", "json", "parquet"]


def report_command(
    study: StudyFile,
    out: Annotated[
        Path | None,
        typer.Option(help="the file to write, - for stdout", show_default="html beside the study, others to stdout"),
    ] = None,
    format: Annotated[Form, typer.Option(help="html is one page that needs no network")] = "html",
    metric: Metric = None,
) -> None:
    """Write a sweep's report: the answer, the plots, what was run."""
    text = render_report(study, format, metric)
    if out is None and format == "html":
        out = Path(study).with_suffix(".html")
    _write_text(text, None if str(out) == "-" else out, study, "report")


def plot_command(
    study: StudyFile,
    out: Annotated[Path, typer.Option(help="the picture to write: .png, .svg or .pdf", callback=check_picture)],
    kind: Annotated[Kind, typer.Option(help="loss against rate, or tuned rate against depth")] = "landscape",
    over: Annotated[
        OverChoice, typer.Option(help="of scaling: over effective depth, or over what the study varies")
    ] = "depth",
    rule: Annotated[list[str] | None, typer.Option(help="of scaling: also draw this rule's rates (repeat)")] = None,
    metric: Metric = None,
    dark: Annotated[bool, typer.Option("--dark", help="for a dark page")] = False,
    transparent: Annotated[bool, typer.Option("--transparent", help="without a background")] = False,
) -> None:
    """Draw a sweep as a picture."""
    results = read_results(study, metric)
    check_not_the_study(out, study, "picture")

    def draw(axes: Axes) -> object:
        if kind == "landscape":
            return loss_landscape(results, axes=axes)
        return scaling(results, over, axes=axes, rules=rule or [])

    write_picture(draw, out, dark=dark, transparent=transparent)
    print_note(f"rates are judged by the {loss_label(results)}")
    print_notes(results.notes)


def export_command(
    study: StudyFile,
    format: Annotated[Format, typer.Option(help="parquet needs --out and the pyarrow package")] = "csv",
    out: Annotated[Path | None, typer.Option(help="a file to write, in place of stdout")] = None,
    metric: Metric = None,
    times: Annotated[bool, typer.Option("--times", help="add seconds and dates, which differ from run to run")] = False,
) -> None:
    """Write a sweep's cells as a table."""
    results = read_results(study, metric)
    print_note(f"the column loss is the {loss_label(results)}")
    print_notes((*results.damage, *results.failures))
    if format == "parquet":
        if out is None:
            raise DepthlrError("Parquet is not text: name a file with --out.")
        check_not_the_study(out, study, "table")
        write_file(out, _parquet(results, times))
    else:
        write = to_csv if format == "csv" else to_json
        _write_text(write(results, times=times), out, study, "table")


def _parquet(results: Results, times: bool) -> bytes:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise DepthlrError("Parquet needs the pyarrow package: run pip install pyarrow, or export CSV.") from error
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.Table.from_pylist(results.rows(times=times)), sink)
    return bytes(sink.getvalue())


def _write_text(text: str, out: Path | None, study: str, what: str) -> None:
    """Write a text of a study to a file, or to stdout if no file is named."""
    if out is None:
        sys.stdout.write(text)
    else:
        check_not_the_study(out, study, what)
        write_file(out, text.encode())


def serve_command(
    study: Annotated[str, typer.Argument(help="the .sqlite of a sweep, running, finished, or still to begin")],
    port: Annotated[int, typer.Option(help="where it listens", show_default="any that is free")] = 0,
    metric: Metric = None,
    json: Json = False,
) -> None:
    """Show a sweep's report live, to this computer alone, until Ctrl-C."""
    check_not_described(Path(study))
    if Path(study).exists():
        read_snapshot(study).by(metric)  # a file that is no study is refused before anybody looks at it
    elif not Path(study).absolute().parent.is_dir():
        raise DepthlrError(f"There is no folder for {study}: name a study that depthlr sweep writes.")
    with serving(study, port, metric) as url:
        if json:
            print_json({"url": url})
        else:
            print(url)
        sys.stdout.flush()  # a pipe's reader wants it now
        if not Path(study).exists():
            print_note(f"{study} does not exist yet: the page waits for it")
        print_note("open this address in a browser; Ctrl-C ends it")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print_note("ended; the study is as it was")
