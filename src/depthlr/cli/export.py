"""`depthlr export STUDY.sqlite`: one row a cell, as CSV, JSON or Parquet."""

from __future__ import annotations

import sys
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from depthlr.cli.files import check_not_the_study, write_file
from depthlr.cli.options import Metric, StudyFile
from depthlr.cli.output import print_note, print_notes
from depthlr.errors import DepthlrError
from depthlr.present.text import loss_label
from depthlr.study.results import Results, read_results, to_csv, to_json


class Format(StrEnum):
    """How a table is written."""

    csv = "csv"
    json = "json"
    parquet = "parquet"


def export_command(
    study: StudyFile,
    format: Annotated[Format, typer.Option(help="parquet needs --out and the pyarrow package")] = Format.csv,
    out: Annotated[Path | None, typer.Option(help="a file to write, in place of stdout")] = None,
    metric: Metric = None,
    times: Annotated[bool, typer.Option("--times", help="add seconds and dates, which differ from run to run")] = False,
) -> None:
    """Write a sweep's cells as a table."""
    results = read_results(study, metric)
    print_note(f"the column loss is the {loss_label(results)}")
    print_notes((*results.damage, *results.failures))
    if out is not None:
        check_not_the_study(out, study, "table")
    if format is Format.parquet:
        if out is None:
            raise DepthlrError("Parquet is not text: name a file with --out.")
        write_file(out, _parquet(results, times))
        return
    text = to_csv(results, times=times) if format is Format.csv else to_json(results, times=times)
    if out is None:
        sys.stdout.write(text)
    else:
        write_file(out, text.encode())


def _parquet(results: Results, times: bool) -> bytes:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise DepthlrError("Parquet needs the pyarrow package: run pip install pyarrow, or export CSV.") from error
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.Table.from_pylist(results.rows(times=times)), sink)
    return bytes(sink.getvalue())
