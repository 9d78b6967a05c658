"""What `depthlr sweep`, `tune` and `demo` share: a study is trained into its file, with progress and signals."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import typer

from depthlr.cli.output import print_note
from depthlr.cli.sweep_progress import SweepProgress
from depthlr.models.spec import parse_spec
from depthlr.present.server import serving
from depthlr.study.description import Study
from depthlr.study.results import Results
from depthlr.study.run import SweepInterrupted, sweep
from depthlr.study.tasks import OpenCluster, depths_of, executor_for, load_data
from depthlr.training.executor import Limits


def train_study(
    study: Study,
    path: Path,
    *,
    serve: bool = False,
    workers: int | None = None,
    limits: Limits | None = None,
    retry_failed: bool = False,
    open_cluster: OpenCluster | None = None,
) -> Results:
    """Run a study into its file, with progress. A signal ends the program with the command that goes on.

    Args:
        study: The study.
        path: Its file.
        serve: Show a live page.
        workers: Processes or commands at a time.
        limits: Of each cell.
        retry_failed: Train failed cells again.
        open_cluster: Opens the executor of a cluster. None trains on this machine.
    """
    examples, held_out = load_data(study) if study.training.has_length else (None, None)
    depths = None
    if study.model.spec is not None:
        depths = depths_of(study, None if examples is None else examples.input)
    own = study.model.spec is not None and parse_spec(study.model.spec).family != "zoo"
    if own and study.training.has_length and study.training.variance != "own":
        print_note(
            'note: weights are drawn anew by init_; training.variance = "own" keeps those that models come with.'
        )
    with _stops() as caught:
        try:
            with ExitStack() as stack:
                if serve:
                    print_note(f"follow it at {stack.enter_context(serving(path))}")
                progress = stack.enter_context(SweepProgress(study))
                executor = stack.enter_context(
                    executor_for(study, examples, held_out, workers=workers, limits=limits, open_cluster=open_cluster)
                )
                return sweep(
                    study,
                    executor,
                    path,
                    examples=examples,
                    held_out=held_out,
                    depths=depths,
                    progress=progress,
                    retry_failed=retry_failed,
                )
        except SweepInterrupted as stop:
            command = shlex.join(["depthlr", *sys.argv[1:]])
            print_note(f"stopped with {stop.cells} cells kept in {stop.path}; go on with: {command}")
            raise typer.Exit(128 + (caught[0] if caught else signal.SIGINT)) from None


@contextmanager
def _stops() -> Iterator[list[int]]:
    """SIGTERM stops a sweep as Ctrl-C does; the list says which signal it was. While it stops, others are ignored."""
    caught: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if isinstance(sys.exception(), KeyboardInterrupt):  # it is being cleaned up after one, which takes moments
            return
        caught.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
