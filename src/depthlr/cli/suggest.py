"""`depthlr suggest MODEL`: an absolute rate, without a training run."""

from __future__ import annotations

from typing import Annotated

import typer

from depthlr.cli.measurement import measurement_data, measurement_progress, prepare_measurement
from depthlr.cli.options import RATE_MEASUREMENT, Json, MeasurementOptions, Model, expand_options
from depthlr.cli.output import print_json, print_note, print_notes
from depthlr.formatting import rate_text
from depthlr.transfer.suggest import suggest_rate


@expand_options
def suggest_command(
    model: Model,
    schedule: Annotated[str, typer.Option(help="constant, or warmup-cosine: then it is the peak")] = "constant",
    options: MeasurementOptions = RATE_MEASUREMENT,
    json: Json = False,
) -> None:
    """Suggest a rate for a model as it is initialized.

    The interval is from runs of 100 to 200 steps that began from init_. In longer runs with warm-up and decay, and from
    other initializations, the suggestion errs by more.
    """
    on = measurement_data(options)
    given = prepare_measurement(model, on)
    with measurement_progress(options, model):
        found = suggest_rate(
            given.build, given.batches, on.loss_fn, options.optimizer, schedule=schedule, seeds=options.seeds
        )
    if json:
        task = {"optimizer": options.optimizer, "data": options.data, "loss": options.loss, "batch": options.batch}
        print_json({"model": model, **task, "schedule": schedule, **vars(found)})
        return
    print(rate_text(found.rate))
    print_note(f"{found.coverage:.0%} interval {rate_text(found.low)} to {rate_text(found.high)}")
    print_note(f"measure: {found.measure}")
    print_notes(found.notes)
    print_note(f"evidence: {found.evidence}")
