"""`depthlr transfer --rate R --from MODEL|L --to MODEL|L`: the rate for another depth."""

from __future__ import annotations

from typing import Annotated, Any

import typer

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
    OptimizerName,
    OwnInit,
    SeedsOption,
    check_seeds,
    given_options,
)
from depthlr.cli.output import print_json, print_note
from depthlr.errors import DepthlrError
from depthlr.formatting import rate_text
from depthlr.law.carried_rate import CarriedRate
from depthlr.law.rules import MEASURING_RULES, OPTIMIZER_FAMILIES, RULES, recommended_rule

# What needs torch is imported where models are counted or measured: between two depths, a rate takes arithmetic alone.
OF_MEASURING = ("data", "loss", "folder", "batch", "seeds", "own_init")


def transfer(
    context: typer.Context,
    rate: Annotated[float, typer.Option(help="the rate tuned at the source")],
    source: Annotated[str, typer.Option("--from", help="a model, or an effective depth")],
    target: Annotated[str, typer.Option("--to", help="a model, or an effective depth")],
    rule: Annotated[
        str | None,
        typer.Option(
            help=", ".join((*MEASURING_RULES, *RULES)),
            show_default="constant for long runs and models of other libraries, else law",
        ),
    ] = None,
    optimizer: OptimizerName = "sgd",
    data: DataName = RANDOM,
    loss: LossName = DEFAULT_LOSS,
    folder: Folder = None,
    batch: BatchSize = 64,
    seeds: SeedsOption = DEFAULT_SEEDS,
    input: Input = None,
    own_init: OwnInit = False,
    schedule: Annotated[
        str, typer.Option(help="how the rate changes during the run, such as warmup-cosine")
    ] = "constant",
    steps: Annotated[int | None, typer.Option(help="how many steps the run has")] = None,
    json: Json = False,
) -> None:
    """Carry a rate from one depth to another.

    Runs with a schedule or of 500 steps or more, and models of other libraries, take the rule 'constant'.

    Intervals were calibrated on runs of 100 to 200 steps. Longer runs with warm-up and decay want a much flatter
    exponent, that of the rule 'constant'.
    """
    if rule is None:
        paths = [text.partition("?")[0] for text in (source, target)]
        of_library = any("/" in path or ":" in path for path in paths)  # timm/, hf/ and module:callable
        rule = recommended_rule(schedule=schedule, steps=steps, own_init=of_library)
    if optimizer not in OPTIMIZER_FAMILIES:
        raise DepthlrError(f"There is no optimizer {optimizer!r}: choose one of {', '.join(OPTIMIZER_FAMILIES)}.")
    if rule not in MEASURING_RULES and (unused := given_options(context, OF_MEASURING)):
        raise DepthlrError(
            f"{unused[0]} is for rules that measure, and {rule} does not: add --rule measured, or leave it out."
        )
    if rule in MEASURING_RULES:
        on = {"data": data, "loss": loss, "folder": folder, "batch": batch, "input": input}
        carried = _measure_and_carry(rule, rate, (source, target), on, optimizer, seeds, own_init)
    else:
        carried = _by_rule(rule, rate, source, target, optimizer, input)
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
    if target.startswith("timm/"):
        from depthlr.integrations.timm import train_command

        print_note(f"timm: {train_command(target, carried.rate, optimizer=optimizer)}")
    print_note(f"assumes: {carried.assumes}")
    for note in carried.notes:
        print_note(f"note: {note}")
    print_note(f"evidence: {carried.evidence}")


def _by_rule(rule: str, rate: float, source: str, target: str, optimizer: str, input: str | None) -> CarriedRate:
    a, b = _number(source), _number(target)
    if a is not None and b is not None and rule in RULES and not RULES[rule].counts_paths:
        return RULES[rule].carry(rate, a, b, OPTIMIZER_FAMILIES[optimizer])
    from depthlr.models.build import build
    from depthlr.trace.depth import effective_depth
    from depthlr.transfer.rules import transfer_rate

    here, there = (
        effective_depth(*build(text, input=input, meta=True)) if depth is None else depth
        for text, depth in ((source, a), (target, b))
    )
    return transfer_rate(rate, here, there, rule=rule, optimizer=optimizer)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _measure_and_carry(
    rule: str,
    rate: float,
    models: tuple[str, str],
    on: dict[str, Any],
    optimizer: str,
    seeds: int,
    own_init: bool,
) -> CarriedRate:
    from depthlr.cli.measure import measure_energies
    from depthlr.cli.measurement import measurement_data, note_redrawn, prepare_measurement, progress_bar
    from depthlr.transfer.rules import transfer_rate

    for text in models:
        if text.replace(".", "", 1).isdigit():
            raise DepthlrError(f"--rule {rule} measures two models, and {text} is a depth: name models.")
    check_seeds(seeds)
    examples = measurement_data(**on)
    here, there = (prepare_measurement(text, examples, own_init=own_init, draws=seeds) for text in models)
    if rule == "am-mup":
        carried = transfer_rate(rate, *(measure_energies(one, seeds, optimizer) for one in (here, there)), rule=rule)
    else:
        step: dict[str, Any] = {"batches": here.batches, "loss_fn": here.loss_fn, "optimizer": optimizer}
        with progress_bar():
            carried = transfer_rate(rate, here.build, there.build, **step, seeds=seeds)
    note_redrawn(here, there)
    return carried
