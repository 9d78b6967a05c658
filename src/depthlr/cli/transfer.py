"""`depthlr transfer --rate R --from MODEL|L --to MODEL|L`: the rate for another depth."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import typer

from depthlr.cli.depth import Input, Json
from depthlr.cli.given import given
from depthlr.cli.measure import BatchSize, DataName, OptimizerName, OwnInit, Seeds, check_seeds, measured_task
from depthlr.cli.output import print_json, print_note, rate_text
from depthlr.cli.task import Data, note_redrawn, task
from depthlr.energy.persistent import SEEDS
from depthlr.energy.step import OPTIMIZERS
from depthlr.errors import DepthlrError
from depthlr.law.rules import RULES
from depthlr.models.build import build
from depthlr.trace.depth import Depth, effective_depth
from depthlr.transfer.carried_rate import CarriedRate
from depthlr.transfer.carry import MEASURING, transfer_rate

OF_MEASURING = ("data", "batch", "seeds", "own_init")


def transfer(
    context: typer.Context,
    rate: Annotated[float, typer.Option(help="the rate tuned at the source")],
    source: Annotated[str, typer.Option("--from", help="a model, or an effective depth")],
    target: Annotated[str, typer.Option("--to", help="a model, or an effective depth")],
    rule: Annotated[str, typer.Option(help=", ".join((*MEASURING, *RULES)))] = "law",
    optimizer: OptimizerName = "sgd",
    data: DataName = Data.random,
    batch: BatchSize = 64,
    seeds: Seeds = SEEDS,
    input: Input = None,
    own_init: OwnInit = False,
    json: Json = False,
) -> None:
    """Carry a rate from one depth to another.

    Intervals were calibrated on runs of 100 to 200 steps; longer runs with warm-up and decay want a much flatter
    exponent (-0.06 to -0.58 over effective depth in four recipes that were tuned).
    """
    if optimizer not in OPTIMIZERS:
        raise DepthlrError(f"There is no optimizer {optimizer!r}: choose one of {', '.join(OPTIMIZERS)}.")
    if rule not in MEASURING and (unused := given(context, OF_MEASURING)):
        raise DepthlrError(
            f"{unused[0]} is for rules that measure, and {rule} does not: add --rule measured, or leave it out."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the notes are printed below
        if rule in MEASURING:
            carried = _measured(rule, rate, source, target, optimizer, data, batch, seeds, input, own_init)
        else:
            here, there = (_depth(text, input) for text in (source, target))
            carried = transfer_rate(rate, here, there, rule=rule, optimizer=optimizer)
    if json:
        print_json(vars(carried))
        return
    print(rate_text(carried.rate))
    print_note(
        f"{carried.rule}: depth {carried.source_depth:g} -> {carried.target_depth:g}, "
        f"{rate_text(rate)} x {carried.factor:.3g}"
    )
    if carried.low is not None and carried.high is not None:
        print_note(f"{carried.coverage:.0%} interval {rate_text(carried.low)} to {rate_text(carried.high)}")
    print_note(f"assumes: {carried.assumes}")
    for note in carried.notes:
        print_note(f"note: {note}")
    print_note(f"evidence: {carried.evidence}")


def _depth(text: str, input: str | None) -> float | Depth:
    try:
        return float(text)
    except ValueError:
        return effective_depth(*build(text, input=input, meta=True))


def _measured(
    rule: str,
    rate: float,
    source: str,
    target: str,
    optimizer: str,
    data: Data,
    batch: int,
    seeds: int,
    input: str | None,
    own_init: bool,
) -> CarriedRate:
    for text in (source, target):
        if text.replace(".", "", 1).isdigit():
            raise DepthlrError(f"--rule {rule} measures two models, and {text} is a depth: name models.")
    check_seeds(seeds)
    options: dict[str, Any] = {"input": input, "own_init": own_init, "draws": seeds}
    here, there = (task(text, data, batch, **options) for text in (source, target))
    note_redrawn(here, there)
    if rule == "am-mup":
        return transfer_rate(rate, *(measured_task(given, seeds, optimizer) for given in (here, there)), rule=rule)
    return transfer_rate(
        rate, here.build, there.build, batches=here.batches, loss_fn=here.loss_fn, optimizer=optimizer, seeds=seeds
    )
