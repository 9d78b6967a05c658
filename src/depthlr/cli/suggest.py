"""`depthlr suggest MODEL`: an absolute rate, without a training run."""

from __future__ import annotations

from typing import Annotated

import typer

from depthlr.cli.measurement import measurement_data, note_redrawn, prepare_measurement, progress_bar
from depthlr.cli.options import (
    DEFAULT_LOSS,
    DEFAULT_SEEDS,
    RANDOM,
    BatchSize,
    DataName,
    Folder,
    Input,
    Json,
    LossName,
    Model,
    OptimizerName,
    OwnInit,
    check_seeds,
)
from depthlr.cli.output import print_json, print_note
from depthlr.formatting import rate_text
from depthlr.transfer.suggest import suggest_rate


def suggest(
    model: Model,
    optimizer: OptimizerName = "sgd",
    data: DataName = RANDOM,
    loss: LossName = DEFAULT_LOSS,
    folder: Folder = None,
    batch: BatchSize = 64,
    schedule: Annotated[str, typer.Option(help="constant, or warmup-cosine: then it is the peak")] = "constant",
    seeds: Annotated[int, typer.Option(help="initialisations to take the mean over")] = DEFAULT_SEEDS,
    input: Input = None,
    own_init: OwnInit = False,
    json: Json = False,
) -> None:
    """Suggest a rate for a model as it is initialised.

    Intervals were calibrated on runs of 100 to 200 steps. Longer runs with warm-up and decay want a much flatter
    exponent, that of the rule 'constant'.
    """
    check_seeds(seeds)
    on = measurement_data(data, batch, loss, folder=folder, input=input)
    given = prepare_measurement(model, on, own_init=own_init, draws=seeds)
    with progress_bar():
        found = suggest_rate(given.build, given.batches, given.loss_fn, optimizer, schedule=schedule, seeds=seeds)
    note_redrawn(given)
    if json:
        print_json(
            {
                "model": model,
                "optimizer": optimizer,
                "data": data,
                "loss": loss,
                "batch": batch,
                "schedule": schedule,
                **vars(found),
            }
        )
        return
    print(rate_text(found.rate))
    print_note(f"{found.coverage:.0%} interval {rate_text(found.low)} to {rate_text(found.high)}")
    print_note(f"measure: {found.measure}")
    for note in found.notes:
        print_note(f"note: {note}")
    print_note(f"evidence: {found.evidence}")
