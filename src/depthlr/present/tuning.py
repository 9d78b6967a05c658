"""What `depthlr tune` found, as tables and as one page: the rates, their cost, the check, and what to do next."""

from __future__ import annotations

import math
from enum import StrEnum
from html import escape
from typing import Any

from depthlr.formatting import rate_text
from depthlr.law.carried_rate import CarriedRate
from depthlr.present import page
from depthlr.present.findings import findings
from depthlr.present.text import duration_text, file_stem, loss_label, write_study_command
from depthlr.study.curves import NEAR_GUESSING, chance_loss
from depthlr.study.follow import Snapshot
from depthlr.study.results import Results
from depthlr.study.tune import CHECK_RECORD, FACTOR, STEP_SHARE, Tuning, did_train


def rates_table(tuning: Tuning) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows: the source with its tuned rate, the target with the carried one.

    Args:
        tuning: What was found.
    """
    carried, model = tuning.carried, tuning.study.model
    columns = ("", model.size_name, "depth", "rate", f"{carried.coverage:.0%} interval", "from")
    cost = "given" if tuning.source is None else cost_text(tuning.source)
    small, large = map(str, model.sizes)
    source = ("source", small, f"{carried.source_depth:g}", rate_text(tuning.rate), "-", cost)
    change, interval = f"{carried.rule}, x {carried.factor:.3g}", interval_text(carried)
    target = ("target", large, f"{carried.target_depth:g}", rate_text(carried.rate), interval, change)
    return columns, [source, target]


def check_table(tuning: Tuning, checked: Results) -> tuple[str, tuple[str, str, str], list[tuple[str, str, str]]]:
    """Title, columns and rows of the check: each rate with its loss, and which loss is the lowest.

    Args:
        tuning: What was found.
        checked: The check of it.
    """
    rows = []
    for record in sorted(checked.records, key=lambda record: record.cell.rate):
        outcome = "diverged" if record.diverged else record.failure or f"{checked.loss_of(record):.4f}"
        rows.append((rate_text(record.cell.rate), outcome, "lowest" if record.cell.rate == tuning.best_checked else ""))
    steps = checked.study.training.run_steps
    title = f"the target in {steps} steps ({tuning.share:.0%} of the schedule), {checked.metric} loss"
    return title, ("rate", "loss", ""), rows


OTHER_METRIC = (
    "rates are judged by the training loss, and the exponent was fitted on rates tuned for the validation loss at the "
    'end: set data.validation and training.metric = "validation".'
)
COARSE = (
    "the source's rates are {:.2g} decades apart, and half of the interval is {:.2g}: the source is not tuned that "
    "finely, so take more points."
)


class CheckOutcome(StrEnum):
    """What the check says of the carried rate. Only full runs compare rates; shorter ones prefer other rates."""

    unchecked = "It was not checked by training."
    failed = "In the check the target did not train at the carried rate."
    hardly_learned = "In the check the target hardly learned at this rate."
    trained = "In the check the target trained at this rate."
    best = "In the check, by full runs, it had the lowest loss of three rates."
    not_best = "In the check, by full runs, {} had a lower loss than the carried rate."


def check_outcome(tuning: Tuning) -> CheckOutcome:
    """What the check says of the carried rate.

    Args:
        tuning: What was found.
    """
    checked, rate = tuning.checked, tuning.carried.rate
    if checked is None:
        return CheckOutcome.unchecked
    at_rate = min(checked.records, key=lambda record: abs(math.log(record.cell.rate / rate)))
    if tuning.share == 1 and tuning.best_checked not in (None, at_rate.cell.rate):
        return CheckOutcome.not_best
    if not did_train(at_rate, checked):
        return CheckOutcome.failed
    chance = None if checked.metric == "error" else chance_loss(checked.study)
    if chance is not None and checked.loss_of(at_rate) > (1 - NEAR_GUESSING) * chance:
        return CheckOutcome.hardly_learned
    return CheckOutcome.best if tuning.share == 1 else CheckOutcome.trained


def recommended_rate(tuning: Tuning) -> float | None:
    """The rate to train the target at: the carried one, unless the check speaks against it. None if none trained.

    Args:
        tuning: What was found.
    """
    if check_outcome(tuning) in (CheckOutcome.not_best, CheckOutcome.failed):
        return tuning.best_checked
    return tuning.carried.rate


def next_steps(tuning: Tuning) -> list[str]:
    """What to do next, the most important step first.

    Args:
        tuning: What was found.
    """
    carried, best, outcome = tuning.carried, tuning.best_checked, check_outcome(tuning)
    rate = rate_text(carried.rate)
    if outcome is CheckOutcome.not_best:
        assert best is not None
        farther = best * best / carried.rate  # as far beyond the best as that lies from the carried rate
        outside = carried.low is not None and carried.high is not None and not carried.low <= best <= carried.high
        where = ", which lies outside the interval" if outside else ""
        return [
            f"use {rate_text(best)}{where}: of three full runs with one seed it had the lowest loss",
            f"if you can afford one more run, train it also at {rate_text(farther)}, and keep the best",
        ]
    if outcome is CheckOutcome.failed:
        if best is None:
            lowest = min(carried.low or carried.rate, carried.rate / FACTOR)
            return [f"train the target below {rate_text(lowest)}: in the check it trained at none of three rates"]
        return [f"train the target at {rate_text(best)}: in the check it did not train at {rate}"]
    steps = [f"train the target at {rate}"]
    if outcome is CheckOutcome.best:
        steps = [f"use {rate}: of three full runs with one seed it had the lowest loss"]
    elif not carried.in_scope:
        steps = [f"sweep the target around {rate}: the notes say why the rule may not hold here"]
    if carried.low is not None:
        ends = interval_text(carried).replace(" to ", " and ")
        steps.append(f"if you can afford two more runs, train it also at {ends}, and keep the best")
    if outcome is CheckOutcome.unchecked:
        steps.append("check the rate by training: the same command with --verify")
    elif tuning.share < 1 and outcome is CheckOutcome.hardly_learned:
        steps.append("check longer, since the target hardly learned: --verify with a larger --share")
    elif tuning.share < 1:
        steps.append("if you can afford three runs, check with the whole schedule: --verify --share 1")
    return steps


def notes_of(tuning: Tuning) -> tuple[str, ...]:
    """What to mind about the sweep of the source and about the carried rate."""
    source, carried, study = tuning.source, tuning.carried, tuning.study
    notes = [*(source.notes if source else ()), *carried.notes]
    if carried.rule == "constant" and study.training.metric != "validation":
        notes.append(OTHER_METRIC)
    if source is not None and carried.high is not None:
        half = math.log10(carried.high / carried.rate)
        if study.search.spacing > half:
            notes.append(COARSE.format(study.search.spacing, half))
    return tuple(notes)


def cost_text(results: Results) -> str:
    """`18 runs, 2 seeds, 97 s of training`."""
    seeds = len(results.study.search.seeds)
    runs = f"{len(results.records)} runs, {seeds} seed{'' if seeds == 1 else 's'}"
    return f"{runs}, {_seconds(results):.0f} s of training"


def interval_text(carried: CarriedRate) -> str:
    """`1.85e-2 to 3.74e-2`, or that there is none."""
    if carried.low is None or carried.high is None:
        return "not known"
    return f"{rate_text(carried.low)} to {rate_text(carried.high)}"


def tuning_page(tuning: Tuning) -> str:
    """One self-contained HTML page of all that was found.

    Args:
        tuning: What was found.
    """
    carried = tuning.carried
    change = f"{carried.rule}: the tuned rate × {carried.factor:.3g}"
    steps = "".join(f"<li>{escape(step[0].upper() + step[1:])}.</li>" for step in next_steps(tuning))
    words = {
        "status": "checked by training" if tuning.checked else "not checked by training",
        "answer": _answer_html(tuning),
        "notes": page.notes_html(notes_of(tuning)),
        "rates": _rates_html(tuning),
        "check": _check_html(tuning),
        "curve": "" if tuning.source else "hidden",
        "next": f"<ul>{steps}</ul>",
        "rule": page.facts_html([("Rule", change), ("Assumes", carried.assumes), ("Evidence", carried.evidence)]),
        "run": page.run_html(_run_facts(tuning), "Run it again", _commands(tuning)),
    }
    return page.document("tuning.html", words, tuning.study.name, _plot(tuning))


def _answer_html(tuning: Tuning) -> str:
    carried, model = tuning.carried, tuning.study.model
    small, large = (f"{model.size_name} {size}" for size in model.sizes)
    source = f"source {_cost(tuning.source)}" if tuning.source else "source given"
    check = f"check {_cost(tuning.checked)}" if tuning.checked else "no check"
    total = sum(_seconds(part) for part in (tuning.source, tuning.checked) if part)
    kind = "tuned" if tuning.source else "given"
    depths = f"depth {carried.source_depth:g} to {carried.target_depth:g}\nrule {carried.rule}"
    cost = f"{source}\ncarrying without training\n{check}"
    of_source = f"{small}, depth {carried.source_depth:g}"
    tiles = page.tile_html(f"{kind} rate of the source", rate_text(tuning.rate), of_source)
    tiles += page.tile_html("carried to the target", f"× {carried.factor:.3g}", depths)
    tiles += page.tile_html("training time", duration_text(total), cost)
    checked = check_outcome(tuning).format(rate_text(tuning.best_checked or carried.rate))
    verdict = f"The learning rate of {model.title} with {large}. {checked}"
    use = recommended_rate(tuning) or carried.rate
    aside = f"{carried.coverage:.0%} interval {interval_text(carried)}"
    if use != carried.rate:
        aside = f"carried: {rate_text(carried.rate)}, {aside}"
    return (
        f'<p class="headline"><span class="formula">{rate_text(use)}</span> <span class="aside">{aside}</span></p>'
        f'<p class="verdict">{escape(verdict)}</p><dl class="tiles">{tiles}</dl>'
    )


def _rates_html(tuning: Tuning) -> str:
    rows = []
    for name, size, depth, rate, interval, _ in rates_table(tuning)[1]:
        below = "" if interval == "-" else page.interval_html(interval)
        rows.append(page.row_html(name, size, depth, f"<b>{rate}</b>{below}"))
    return page.table_html(["", tuning.study.model.size_name, "depth", "rate"], rows)


def _check_html(tuning: Tuning) -> str:
    if tuning.checked is None:
        return "<p>The check was not run. It trains the target at the carried rate, at half and at twice of it.</p>"
    title, columns, rows = check_table(tuning, tuning.checked)
    table = page.table_html(columns, [page.row_html(*map(escape, row)) for row in rows])
    worth = f'<p class="fine">{escape(CHECK_RECORD)}</p>' if tuning.share < 1 else ""
    return f"<p>{escape(title[0].upper() + title[1:])}.</p>{table}{worth}"


def _run_facts(tuning: Tuning) -> list[tuple[str, str]]:
    study = tuning.study
    facts = [
        ("Model", f"{study.model.title}, {study.model.size_name} {study.model.sizes[0]} and {study.model.sizes[1]}"),
        ("Data", study.data.name),
    ]
    places: dict[str, None] = {}
    for part, results in (("Source", tuning.source), ("Check", tuning.checked)):
        if results is not None:
            facts.append((part, f"{cost_text(results)}, judged by the {loss_label(results)}"))
            places |= dict.fromkeys(map(str, results.environments))
    return [*facts, ("Trained on", ", then ".join(places) or "not recorded"), ("Recipe digest", study.digest)]


def _commands(tuning: Tuning) -> str:
    name = file_stem(tuning.study)
    options = [f"--rule {tuning.carried.rule}"]
    if tuning.source is None:
        options.append(f"--rate {tuning.rate!r}")
    if tuning.checked is not None:
        options.append("--verify" if tuning.share == STEP_SHARE else f"--verify --share {tuning.share:g}")
    command = f"depthlr tune {name}.toml {' '.join(options)} --report {name}.html\n"
    return write_study_command(tuning.study) + command


def _plot(tuning: Tuning) -> dict[str, Any]:
    """The curves of the source, the tuned rate, and the carried rate with its interval."""
    if tuning.source is None:
        return page.NOTHING
    carried = tuning.carried
    interval = None if carried.low is None or carried.high is None else [carried.low, carried.high]
    tuned = {"kind": "law", "text": "tuned", "rate": tuning.rate, "interval": None}
    marks = [tuned, {"kind": "fit", "text": "carried", "rate": carried.rate, "interval": interval}]
    return page.plot_data(findings(Snapshot(tuning.source, None, 0))) | {"marks": marks}


def _seconds(results: Results) -> float:
    return sum(record.seconds for record in results.records)


def _cost(results: Results) -> str:
    return f"{duration_text(_seconds(results))}, {len(results.records)} runs"
