"""`depthlr tune RECIPE.toml`: tune the small model, carry its rate to the large one, and check it by training.

`depthlr demo` does so on embedded data. It tunes the target too, so every rule's error can be printed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import redirect_stdout
from dataclasses import asdict, replace
from functools import partial
from math import log10
from pathlib import Path
from typing import Annotated, Any

import typer

from depthlr import check
from depthlr.cli.files import write_file
from depthlr.cli.options import Json, RetryFailed, Timeout
from depthlr.cli.output import count_text, print_json, print_note, print_notes, print_table
from depthlr.cli.train_study import train_study
from depthlr.errors import DepthlrError
from depthlr.formatting import rate_text
from depthlr.law.carried_rate import CarriedRate
from depthlr.present.tuning import check_table, next_steps, notes_of, rates_table, recommended_rate, tuning_page
from depthlr.study.description import MOST_SEEDS, Data, Models, Search, Study, read_study
from depthlr.study.results import Results
from depthlr.study.tasks import depths_of, load_data
from depthlr.study.tune import (
    CHECK_RECORD,
    STEP_SHARE,
    Tuning,
    carry_to_target,
    check_recipe,
    check_steps,
    source_study,
    target_study,
    tuned_rate,
    verification_study,
)
from depthlr.training.executor import Limits
from depthlr.training.training import Training
from depthlr.transfer.rules import make_rule


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
    retry_failed: RetryFailed = False,
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
    if rule is not None:
        make_rule(rule)  # raises for a rule that does not exist, before anything is trained
    if share != STEP_SHARE and not verify:
        raise DepthlrError("--share is of a check by training: add --verify.")
    path = Path(recipe).with_suffix(".sqlite")
    source = checked = None
    with redirect_stdout(sys.stderr):  # a model, a loss or data of the user's own may print
        train = partial(train_study, workers=workers, limits=Limits(timeout), retry_failed=retry_failed)
        examples, _ = load_data(study)
        if rate is None:  # a target that cannot be built says so before the source is trained
            depths_of(target_study(study), examples.input)
        if verify:
            check_steps(study, examples, share)
        if rate is None:
            source = train(source_study(study), path)
            rate = tuned_rate(source, f". Change [search] in {recipe}, and delete {path}")
        carried = carry_to_target(study, rate, examples, rule)
        if verify:
            # A file for each carried rate and share, since another rate or length is another study.
            length = "" if share == STEP_SHARE else f"-{share:g}"
            check_path = path.with_name(f"{path.stem}-check-{carried.rate:.3g}{length}.sqlite")
            checked = train(verification_study(study, carried.rate, examples, share), check_path)
    tuning = Tuning(study, rate, source, carried, checked, share)
    if json:
        print_json(_as_json(tuning))
    else:
        print_tuning(tuning)
    if report is not None:
        write_file(report, tuning_page(tuning).encode())
    if not json:
        print_note(f"{time.perf_counter() - start:.0f} s")


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
    if tuning.carried.evidence:
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
        "rate": recommended_rate(tuning),
        "next": next_steps(tuning),
        "source": {"rate": tuning.rate, "cells": cells, "notes": notes},
        "carried": asdict(tuning.carried),
        "check": check_json,
    }


# The demo's task was fixed before its result was seen.
RECIPE = Study(
    "demo",
    Models("resnet?width=16", "blocks", (2, 8)),
    Training(
        steps=200,
        batch=64,
        optimizer="adamw",
        weight_decay=0.05,
        decay="weights",
        schedule="warmup-cosine",
        warmup=0.1,
        variance="own",
        metric="validation",
    ),
    Data("digits", validation=0.25),
    Search("adaptive", 1e-3, 1.0, 25, (0, 1)),
)
COMPARED = ("constant", "copy", "law", "measured")


def demo_command(
    steps: Annotated[int, typer.Option(help="training steps a run")] = 200,
    seeds: Annotated[int, typer.Option(help="initializations and shuffles")] = 2,
) -> None:
    """Tune a small ResNet on embedded digits, carry its rate to a deeper one, tune that too: about a minute."""
    start = time.perf_counter()
    check.count("--seeds", seeds, most=MOST_SEEDS)
    training = replace(RECIPE.training, steps=check.count("--steps", steps))
    study = replace(RECIPE, training=training, search=replace(RECIPE.search, seeds=tuple(range(seeds))))
    print_note(
        f"1,797 handwritten digits, a quarter held out; AdamW, warm-up and cosine, {steps} steps of 64 examples, "
        f"{count_text(seeds, 'seed')}; rates are judged by the validation loss at the end"
    )
    examples, _ = load_data(study)
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(sys.stderr):
        source = train_study(source_study(study), Path(folder) / "source.sqlite")
        rate = tuned_rate(source)
        carried = {rule: carry_to_target(study, rate, examples, rule) for rule in COMPARED}
        check_of = verification_study(study, carried["constant"].rate, examples, share=1.0)
        checked = train_study(check_of, Path(folder) / "check.sqlite")
        tuned = train_study(target_study(study), Path(folder) / "target.sqlite")
    print_tuning(Tuning(study, rate, source, carried["constant"], checked, share=1.0))
    _print_errors(tuned, carried)
    print_note(f"{time.perf_counter() - start:.0f} s")


def _print_errors(tuned: Results, carried: dict[str, CarriedRate]) -> None:
    """Each rule's rate for the target beside the tuned one, with its error in decades."""
    if not tuned.tuned_rates:
        print_note(f"the target has no tuned rate to compare with: {'; '.join(tuned.notes)}")
        return
    (best,) = tuned.tuned_rates.values()
    rows = []
    for rule, found in carried.items():
        holds = "-"
        if found.low is not None and found.high is not None:
            holds = "yes" if found.low <= best <= found.high else "no"
        rows.append((rule, rate_text(found.rate), f"{abs(log10(found.rate / best)):.2f}", holds))
    title = f"the target tuned by itself: {rate_text(best)} ({len(tuned.records)} runs)"
    print_table(("rule", "carried rate", "error, decades", "interval contains it"), rows, title=title)
    print_note("one task proves nothing: see docs/realbench.md and docs/transferbench.md")
