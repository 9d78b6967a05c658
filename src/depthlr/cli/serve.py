"""`depthlr serve STUDY.sqlite`: the report as a page that follows the sweep."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from depthlr.cli.options import Json, Metric
from depthlr.cli.output import print_json, print_note
from depthlr.errors import DepthlrError
from depthlr.present.server import serving
from depthlr.study.follow import read_snapshot


def serve_command(
    study: Annotated[str, typer.Argument(help="the .sqlite of a sweep, running, finished, or still to begin")],
    port: Annotated[int, typer.Option(help="where it listens", show_default="any that is free")] = 0,
    metric: Metric = None,
    json: Json = False,
) -> None:
    """Show a sweep's report live, to this computer alone, until Ctrl-C."""
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
