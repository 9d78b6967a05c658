"""`depthlr tune RECIPE.toml`: tune the small model, carry its rate to the large one, and check it by training."""

from __future__ import annotations

import sys
import time
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from depthlr import check
from depthlr.cli.measurement import progress_bar
from depthlr.cli.options import Json
from depthlr.cli.output import print_json, print_note, print_table
from depthlr.cli.sweep import train_study
from depthlr.formatting import rate_text
from depthlr.study.description import read_study
from depthlr.study.results import Results
from depthlr.study.task import load_data
from depthlr.study.tune import (
    CHECK_RECORD,
    STEP_SHARE,
    Tuning,
    carry_to_target,
    check_recipe,
    check_study,
    source_study,
    tuned_rate,
)
from depthlr.training.executor import Limits


def tune(
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
    timeout: Annotated[float | None, typer.Option(help="give a cell up after so many seconds")] = None,
    json: Json = False,
) -> None:
    """Tune a small model, carry its rate to a large one, and check it by training; run again, it resumes."""
    start = time.perf_counter()
    study = read_study(recipe)
    check_recipe(study)
    if rate is not None:
        check.positive("--rate", rate)
    path = Path(recipe).with_suffix(".sqlite")
    with redirect_stdout(sys.stderr):  # a model, a loss or data of the user's own may print
        limits = Limits(timeout)
        examples, _ = load_data(study)
        source = None if rate is not None else train_study(source_study(study), path, workers=workers, limits=limits)
        found = tuned_rate(source) if source is not None else rate
        assert found is not None
        with progress_bar():
            carried = carry_to_target(study, found, examples, rule)
        checked = None
        if verify:
            wanted = check_study(study, carried.rate, examples, share)
            checked = train_study(wanted, _check_path(path, carried.rate), workers=workers, limits=limits)
    tuning = Tuning(study, found, source, carried, checked, share)
    if json:
        print_json(_as_json(tuning))
        return
    print_tuning(tuning)
    print_note(f"{time.perf_counter() - start:.0f} s")


def _check_path(path: Path, rate: float) -> Path:
    """A file for each carried rate, since another rate is another study."""
    return path.with_name(f"{path.stem}-check-{rate:.3g}.sqlite")


def print_tuning(tuning: Tuning) -> None:
    """The rates of both models, the check, what they cost, and what to do next."""
    carried, model = tuning.carried, tuning.study.model
    interval = f"{carried.coverage:.0%} interval"
    bounds, nearby = "not known", ""
    if carried.low is not None and carried.high is not None:
        low, high = rate_text(carried.low), rate_text(carried.high)
        bounds = f"{low} to {high}"
        nearby = f", and if you can afford two more runs, also at {low} and {high}"
    rows = [
        ("source", model.sizes[0], f"{carried.source_depth:g}", rate_text(tuning.rate), "-", _cost(tuning.source)),
        (
            "target",
            model.sizes[1],
            f"{carried.target_depth:g}",
            rate_text(carried.rate),
            bounds,
            f"{carried.rule}, x {carried.factor:.3g}",
        ),
    ]
    print_table(("", model.size_name, "depth", "rate", interval, "from"), rows, title=model.title)
    if tuning.checked is not None:
        _print_check(tuning, tuning.checked)
    for note in (*(tuning.source.notes if tuning.source else ()), *carried.notes):
        print_note(f"note: {note}")
    print_note(f"evidence: {carried.evidence}")
    print_note(f"next: train the target at {rate_text(carried.rate)}{nearby}")


def _cost(results: Results | None) -> str:
    if results is None:
        return "given"
    seconds = sum(record.seconds for record in results.records)
    return f"{len(results.records)} runs, {len(results.study.search.seeds)} seeds, {seconds:.0f} s of training"


def _print_check(tuning: Tuning, checked: Results) -> None:
    rows = []
    for record in sorted(checked.records, key=lambda record: record.cell.rate):
        outcome = "diverged" if record.diverged else record.failure or f"{checked.loss_of(record):.4f}"
        rows.append((rate_text(record.cell.rate), outcome, "lowest" if record.cell.rate == tuning.best_checked else ""))
    steps = checked.study.training.run_steps
    title = f"the target in {steps} steps ({tuning.share:.0%} of the schedule), {checked.metric} loss"
    print_table(("rate", "loss", ""), rows, title=title)
    if tuning.share < 1:
        print_note(f"note: {CHECK_RECORD}")


def _as_json(tuning: Tuning) -> dict[str, Any]:
    checked = tuning.checked
    return {
        "rate": tuning.carried.rate,
        "source": {
            "rate": tuning.rate,
            "cells": 0 if tuning.source is None else len(tuning.source.records),
            "notes": [] if tuning.source is None else list(tuning.source.notes),
        },
        "carried": asdict(tuning.carried),
        "check": None
        if checked is None
        else {
            "share": tuning.share,
            "steps": checked.study.training.run_steps,
            "best": tuning.best_checked,
            "losses": {rate_text(record.cell.rate): checked.loss_of(record) for record in checked.records},
        },
    }
