"""`depthlr demo`: the main job on embedded data. The target is tuned too, so every rule's error can be printed."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import redirect_stdout
from dataclasses import replace
from math import log10
from pathlib import Path
from typing import Annotated

import typer

from depthlr.check import count
from depthlr.cli.measurement import progress_bar
from depthlr.cli.output import count_text, print_note, print_table
from depthlr.cli.train_study import train_study
from depthlr.cli.tune import print_tuning
from depthlr.formatting import rate_text
from depthlr.law.carried_rate import CarriedRate
from depthlr.study.description import MOST_SEEDS, Data, Models, Search, Study
from depthlr.study.results import Results
from depthlr.study.tasks import load_data
from depthlr.study.tune import Tuning, carry_to_target, source_study, tuned_rate
from depthlr.training.training import Training

# The task was fixed before its result was seen.
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
    count("--seeds", seeds, most=MOST_SEEDS)
    training = replace(RECIPE.training, steps=count("--steps", steps))
    study = replace(RECIPE, training=training, search=replace(RECIPE.search, seeds=tuple(range(seeds))))
    print_note(
        f"1,797 handwritten digits, a quarter held out; AdamW, warm-up and cosine, {steps} steps of 64 examples, "
        f"{count_text(seeds, 'seed')}; rates are judged by the validation loss at the end"
    )
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(sys.stderr):
        source = train_study(source_study(study), Path(folder) / "source.sqlite")
        rate = tuned_rate(source)
        target = replace(study, model=replace(study.model, sizes=study.model.sizes[1:]))
        tuned = train_study(target, Path(folder) / "target.sqlite")
    examples, _ = load_data(study)
    with progress_bar():
        carried = {rule: carry_to_target(study, rate, examples, rule) for rule in COMPARED}
    print_tuning(Tuning(study, rate, source, carried["constant"]))
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
    print_table(("rule", "carried rate", "error, decades", "interval holds it"), rows, title=title)
    print_note("one task proves nothing: see docs/realbench.md and docs/transferbench.md")
