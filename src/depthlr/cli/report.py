"""`depthlr report STUDY.sqlite`: one page to look at, print or send; or Markdown, or JSON."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from depthlr.cli.files import check_not_the_study, write_file
from depthlr.cli.options import Metric, StudyFile
from depthlr.present.report import render_report


class Form(StrEnum):
    """How a report is written."""

    html = "html"
    markdown = "markdown"
    json = "json"


def report_command(
    study: StudyFile,
    out: Annotated[
        Path | None,
        typer.Option(help="the file to write, - for stdout", show_default="html beside the study, others to stdout"),
    ] = None,
    format: Annotated[Form, typer.Option(help="html is one page that needs no network")] = Form.html,
    metric: Metric = None,
) -> None:
    """Write a sweep's report: the answer, the plots, what was run."""
    text = render_report(study, format.value, metric)
    if out is None and format is Form.html:
        out = Path(study).with_suffix(".html")
    if out is None or str(out) == "-":
        sys.stdout.write(text)
        return
    check_not_the_study(out, study, "report")
    write_file(out, text.encode())
