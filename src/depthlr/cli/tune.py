"""`depthlr tune RECIPE.toml`: tune the small model, carry its rate to the large one, and check it by training."""

from __future__ import annotations

import sys
import time
from contextlib import redirect_stdout
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from depthlr import check
from depthlr.cli.files import write_file
from depthlr.cli.measurement import progress_bar
from depthlr.cli.options import Json, Timeout
from depthlr.cli.output import print_json, print_note, print_notes, print_table
from depthlr.cli.train_study import train_study
from depthlr.errors import DepthlrError
from depthlr.formatting import rate_text
from depthlr.present.tuning import check_table, next_steps, notes_of, rates_table, tuning_page
from depthlr.study.description import read_study
from depthlr.study.tasks import load_data
from depthlr.study.tune import (
    CHECK_RECORD,
    STEP_SHARE,
    Tuning,
    carry_to_target,
    check_recipe,
    check_steps,
    source_study,
    tuned_rate,
    verification_study,
)
from depthlr.training.executor import Limits


def tune_command(
    recipe: Annotated[str, typer.Argument(help="a study's TOML file with two sizes, source and target")],
    rate: Annotated[float | None, typer.Option(help="the source's rate, if it is tuned already")] = None,
    rule: Annotated[
        str | None, typer.Option(help="how the rate is carried", show_default="the one the evidence recommends")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="train the target at the carried rate, at half and at twice of it")
    ] = False,
    share: Annotated[
        float, typer.Option(help="of the steps, in which --verify runs through the schedule; 1 trains in full")
    ] = STEP_SHARE,
    workers: Annotated[
        int | None, typer.Option(help="processes that train side by side on a CPU", min=1, show_default="one a core")
    ] = None,
    timeout: Timeout = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="train the cells again that failed in an earlier run")
    ] = False,
    report: Annotated[Path | None, typer.Option(help="also write all of it on one page: .html")] = None,
    json: Json = False,
) -> None:
    """Tune a small model, carry its rate to a large one, and check it by training; run again, it resumes."""
    start = time.perf_counter()
    if report is not None and report.suffix != ".html":  # so that it replaces neither the recipe nor its sweeps
        raise DepthlrError(f"--report {report}: name a page that ends in .html.")
    study = read_study(recipe)
    check_recipe(study)
    if rate is not None:
        check.positive("--rate", rate)
    path = Path(recipe).with_suffix(".sqlite")
    with redirect_stdout(sys.stderr):  # a model, a loss or data of the user's own may print
        train = partial(train_study, workers=workers, limits=Limits(timeout), retry_failed=retry_failed)
        examples, _ = load_data(study)
        if verify:
            check_steps(study, examples, share)  # before the source is trained
        source = None if rate is not None else train(source_study(study), path)
        found = rate if source is None else tuned_rate(source, f". Change [search] in {recipe}, and delete {path}")
        assert found is not None
        with progress_bar():
            carried = carry_to_target(study, found, examples, rule)
        checked = None
        if verify:
            wanted = verification_study(study, carried.rate, examples, share)
            checked = train(wanted, _check_path(path, carried.rate, share))
    tuning = Tuning(study, found, source, carried, checked, share)
    if json:
        print_json(_as_json(tuning))
    else:
        print_tuning(tuning)
    if report is not None:
        write_file(report, tuning_page(tuning).encode())
    if not json:
        print_note(f"{time.perf_counter() - start:.0f} s")


def _check_path(path: Path, rate: float, share: float) -> Path:
    """A file for each carried rate and share, since another rate or length is another study."""
    length = "" if share == STEP_SHARE else f"-{share:g}"
    return path.with_name(f"{path.stem}-check-{rate:.3g}{length}.sqlite")


def print_tuning(tuning: Tuning) -> None:
    """Print the rates of both models, the check, what they cost, and what to do next.

    Args:
        tuning: What was found.
    """
    columns, rows = rates_table(tuning)
    print_table(columns, rows, title=tuning.study.model.title)
    if tuning.checked is not None:
        title, check_columns, check_rows = check_table(tuning, tuning.checked)
        print_table(check_columns, check_rows, title=title)
        if tuning.share < 1:
            print_note(f"note: {CHECK_RECORD}")
    print_notes(notes_of(tuning))
    print_note(f"evidence: {tuning.carried.evidence}")
    for step in next_steps(tuning):
        print_note(f"next: {step}")


def _as_json(tuning: Tuning) -> dict[str, Any]:
    source, checked, check_json = tuning.source, tuning.checked, None
    if checked is not None:
        losses: dict[str, float | None] = {}  # JSON has no infinity, so the loss of a diverged run is null
        for record in checked.records:
            losses[rate_text(record.cell.rate)] = None if record.diverged else checked.loss_of(record)
        steps = checked.study.training.run_steps
        check_json = {"share": tuning.share, "steps": steps, "best": tuning.best_checked, "losses": losses}
    cells, notes = (0, []) if source is None else (len(source.records), list(source.notes))
    return {
        "rate": tuning.carried.rate,
        "source": {"rate": tuning.rate, "cells": cells, "notes": notes},
        "carried": asdict(tuning.carried),
        "check": check_json,
    }
