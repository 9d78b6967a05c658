"""`depthlr transfer --rate R --from MODEL|L --to MODEL|L`: the rate for another depth."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from depthlr import check
from depthlr.cli.options import RATE_MEASUREMENT, Json, MeasurementOptions, expand_options, given_options
from depthlr.cli.output import print_json, print_note, print_notes
from depthlr.errors import DepthlrError
from depthlr.formatting import rate_text
from depthlr.law.carried_rate import ADAPTIVE, CarriedRate
from depthlr.law.rules import MEASURING_RULES, OPTIMIZER_FAMILIES, RULES, SCHEDULES, recommended_rule
from depthlr.python_name import is_python_name

# What needs torch is imported where models are counted or measured: between two depths, a rate takes arithmetic alone.
OF_MEASURING = ("data", "loss", "folder", "batch", "seeds", "own_init")


@expand_options
def transfer_command(
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
    schedule: Annotated[
        str | None, typer.Option(help=f"{', '.join(SCHEDULES)}, or your own as package.module:function")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="how many steps the run has")] = None,
    options: MeasurementOptions = RATE_MEASUREMENT,
    json: Json = False,
) -> None:
    """Carry a rate from one depth to another.

    Runs with a schedule or of 500 steps or more, and models of other libraries, take the rule 'constant'. Rules that
    measure take models of timm and transformers as their library initializes them.

    Only the interval of 'constant' is from long runs: all others are from runs of 100 to 200 steps. In longer runs
    with warm-up and decay, rates fall much more slowly with depth. For a long run give steps or schedule: the rule
    is then 'constant'.
    """
    if schedule is not None and not is_python_name(schedule):
        check.one_of("--schedule", schedule, SCHEDULES)
    if rule is None:
        paths = [text.partition("?")[0] for text in (source, target)]
        of_library = any("/" in path or ":" in path for path in paths)  # timm/, hf/ and module:callable
        rule = recommended_rule(schedule=schedule, steps=steps, own_init=of_library)
    if not _ignores_optimizer(rule):
        check.one_of("--optimizer", options.optimizer, OPTIMIZER_FAMILIES)
    run = {"schedule": schedule, "steps": steps}
    if rule in MEASURING_RULES:
        carried = _measure_and_carry(rule, rate, (source, target), options, run)
    elif unused := given_options(context, OF_MEASURING):
        raise DepthlrError(
            f"{unused[0]} is for rules that measure, and {rule} does not: add --rule measured, or leave it out."
        )
    else:
        carried = _carry_by_depth(rule, rate, (source, target), options, run)
    timm = {}
    if target.startswith("timm/"):
        from depthlr.integrations.timm import train_command

        given = options.optimizer if given_options(context, ["optimizer"]) else None
        timm["timm"] = train_command(target, carried.rate, optimizer=given)
    if json:
        print_json(vars(carried) | timm)
        return
    print(rate_text(carried.rate))
    depths = f"depth {carried.source_depth:g} -> {carried.target_depth:g}"
    print_note(f"{carried.rule}: {depths}, {rate_text(rate)} x {carried.factor:.3g}")
    if carried.low is not None and carried.high is not None:
        print_note(f"{carried.coverage:.0%} interval {rate_text(carried.low)} to {rate_text(carried.high)}")
    elif not carried.in_scope:
        print_note("no interval: outside the rule's scope, and the notes say why")
    for command in timm.values():
        print_note(f"timm: {command}")
        print_note("with all other options of the small run: weight decay, schedule, data and the rest")
    print_note(f"assumes: {carried.assumes}")
    print_notes(carried.notes)
    if carried.evidence:
        print_note(f"evidence: {carried.evidence}")


def _ignores_optimizer(rule: str) -> bool:
    """Is the rate the same for every optimizer, and so is what is known of it?"""
    found = RULES.get(rule)
    if found is None or found.exponent_sgd is None:
        return False
    return found.exponent_sgd == found.exponent_adam and ADAPTIVE not in found.findings


def _carry_by_depth(
    rule: str, rate: float, ends: tuple[str, str], options: MeasurementOptions, run: dict[str, Any]
) -> CarriedRate:
    family = OPTIMIZER_FAMILIES.get(options.optimizer, "sgd")  # any, where the rule ignores the optimizer
    depths: list[Any] = list(map(_number, ends))
    if None not in depths and rule in RULES and RULES[rule].counts != "paths":
        source_depth, target_depth = depths
        return RULES[rule].carry_depths(rate, source_depth, target_depth, family, **run)
    from depthlr.models.build import build
    from depthlr.trace.depth import effective_depth
    from depthlr.transfer.rules import transfer_rate

    for place, text in enumerate(ends):
        if depths[place] is None:
            depths[place] = effective_depth(*build(text, input=options.input, meta=True))
    return transfer_rate(rate, *depths, rule=rule, family=family, **run)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _measure_and_carry(
    rule: str, rate: float, ends: tuple[str, str], options: MeasurementOptions, run: dict[str, Any]
) -> CarriedRate:
    from depthlr.cli.measurement import measurement_data, note_initialization, prepare_measurement
    from depthlr.energy.energy import update_energy_over_seeds
    from depthlr.transfer.rules import transfer_rate

    for text in ends:
        if _number(text) is not None:
            raise DepthlrError(f"--rule {rule} measures two models, and {text} is a depth: name models.")
    if any(text.startswith(("timm/", "hf/")) for text in ends):
        options = replace(options, own_init=True)  # as the library's scripts train them
    on = measurement_data(options)
    made = [prepare_measurement(text, on) for text in ends]
    given: dict[str, Any] = {"loss_fn": on.loss_fn, "optimizer": options.optimizer}
    if rule == "am-mup":
        seeds = range(options.seeds)
        energies = [update_energy_over_seeds(build, seeds, batches[0], **given) for build, batches in made]
        carried = transfer_rate(rate, *energies, rule=rule)
    else:
        (source, batches), (target, _) = made
        carried = transfer_rate(rate, source, target, rule=rule, batches=batches, seeds=options.seeds, **given, **run)
    note_initialization(options, *ends)
    return carried
