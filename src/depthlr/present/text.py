"""A study in words: captions, tuned rates, intervals, what was run and how to run it again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import Any

from depthlr.formatting import rate_text, signed
from depthlr.law.fit import Fit
from depthlr.present.findings import Findings, RateRow
from depthlr.study.curves import Curve
from depthlr.study.description import Study, to_toml
from depthlr.study.results import Results
from depthlr.training.command import KEY

AT_EDGE = "at edge"


def loss_label(results: Results) -> str:
    """The name of the loss that a study compares, as an axis label."""
    metric, training = results.metric, results.study.training
    if not results.described:
        return metric_name(results) if results.chosen_metric is None else f"loss ({metric})"
    if metric == "error":
        return "validation error"
    unit = " (nats)" if training.loss == "cross_entropy" else ""
    if metric == "validation":
        return f"validation loss{unit}"
    if metric.startswith("validation@"):
        return f"validation loss after {float(metric.partition('@')[2]):g} of the steps{unit}"
    if metric == "last_epoch":
        return f"training loss, mean of the last epoch{unit}"
    count, unit_of_time = (training.steps, "step") if training.steps else (training.epochs, "epoch")
    budget = f"{count} {unit_of_time}s" if count != 1 else f"one {unit_of_time}"
    return f"training loss, mean of {budget}{unit}"


def metric_name(results: Results) -> str:
    """What a study compares: its metric, or the key of the loss that another program told.

    Args:
        results: The study.
    """
    told = not results.described and results.chosen_metric is None
    return results.study.training.key or KEY if told else results.metric


def study_title(results: Results) -> str:
    """The model and, if the study records it, its training."""
    study, training = results.study, results.study.training
    if not results.described:
        return study.model.title
    return f"{study.model.title} on {study.data.name}, {training.optimizer}, batch {training.batch}"


def tuned_text(results: Results, size: int, none: str = "-") -> str:
    """The tuned rate of a size as text.

    It is `at edge` if all optima lie at an edge of the range of rates, and `none` if no run has a loss.

    Args:
        results: The study.
        size: One of its sizes.
        none: The text if no run has a loss.
    """
    if size in results.tuned_rates:
        return rate_text(results.tuned_rates[size])
    has_optimum = any(curve.optimum for curve in results.curves if curve.size == size)
    return AT_EDGE if has_optimum else none


def lossless_text(curves: Iterable[Curve]) -> str:
    """What the runs without a loss did: `diverged`, `failed`, or `diverged or failed`. Empty if all have one.

    Args:
        curves: The curves of these runs.
    """
    known = list(curves)
    words = {"diverged": any(curve.diverged for curve in known), "failed": any(curve.failed for curve in known)}
    return " or ".join(word for word, is_so in words.items() if is_so)


def slope_interval_text(fit: Fit) -> str:
    """`95 % interval −1.62 to −1.24`, or that there is none."""
    if not fit.bounded:
        return "no interval: add seeds or depths"
    low, high = fit.interval
    return f"{fit.level * 100:g} % interval {signed(low)} to {signed(high)}"


def optional_rate_text(rate: float | None) -> str:
    """A rate, or a dash for None."""
    return "–" if rate is None else rate_text(rate)


def rate_interval_text(row: RateRow) -> str:
    """`0.012 to 0.034`; empty without an interval, and `not known` for one wider than four decades."""
    if row.interval is None:
        return ""
    low, high = row.interval
    if high >= 1e4 * low:
        return "not known"
    return f"{rate_text(low)} to {rate_text(high)}"


def run_facts(found: Findings) -> list[tuple[str, str]]:
    """Names and values of what was run: model, seeds, cells, time, machine, digests."""
    results, study = found.results, found.results.study
    facts = [
        ("Model", f"{study.model.title}, {study.model.vary or 'size'} {_join(study.model.sizes)}"),
        ("Seeds", _join(study.search.seeds)),
        ("Cells", _cells_text(results)),
        ("Judged by", loss_label(results)),
    ]
    if results.records:
        finished = [record.finished for record in results.records]
        first, last = min(finished), max(finished)
        facts += [
            ("First and last cell", f"{_date_text(first)} and {_date_text(last)} UTC"),
            ("Training time", duration_text(sum(record.seconds for record in results.records))),
        ]
    places = ", then ".join(map(str, results.environments)) or "not recorded"
    return [
        *facts,
        *_trainer_facts(results),
        ("Trained on" if results.described else "Sweep ran on", places),
        ("Data digest", found.snapshot.data_digest or "not recorded"),
        ("Study digest", study.digest),
    ]


def _trainer_facts(results: Results) -> list[tuple[str, str]]:
    """What trained the cells, where it is not depthlr."""
    training = results.study.training
    if results.described:
        return []
    if training.command is None:
        return [("Trained by", "another program, whose data, optimizer, batch and loss are not recorded")]
    loss = f"the entry {training.key or KEY} of {training.result or 'its standard output'}"
    return [("Trained by the command", training.command), ("Its loss", loss)]


def _cells_text(results: Results) -> str:
    """`64 trained, 3 of them diverged; 2 failed`."""
    failed = sum(bool(record.failure) for record in results.records)
    trained = len(results.records) - failed
    diverged = sum(record.diverged for record in results.records) - failed
    return f"{trained} trained, {diverged} of them diverged{f'; {failed} failed' if failed else ''}"


def study_facts(found: Findings) -> dict[str, Any]:
    """The study as tables, without what is not known of the training if another program trained the cells."""
    tables = found.results.study.to_dict()
    if found.results.described:
        return tables
    known = ("name", "model", "search") if found.results.study.training.command is None else tables.keys() - {"data"}
    return {key: table for key, table in tables.items() if key in known}


def commands(found: Findings) -> str:
    """Shell commands that run the study and write this report; only the report if they cannot run the study."""
    study, metric = found.results.study, found.results.chosen_metric
    usual = Path(f"{file_stem(study)}.sqlite")
    path = found.snapshot.path or usual
    out = "" if path == usual else f" --out {_shell_word(path)}"
    shown = f"{_shell_word(path)} --out {_shell_word(path.with_suffix('.html'))}"
    page = f"depthlr report {shown}{'' if metric is None else f' --metric {metric}'}\n"
    if not can_repeat(found.results):
        return page
    return f"{write_study_command(study)}depthlr sweep {file_stem(study)}.toml{out}\n{page}"


def can_repeat(results: Results) -> bool:
    """Whether the study says how its cells are trained. A program of the user's own may do it otherwise.

    Args:
        results: The study.
    """
    return results.described or results.study.training.command is not None


def _shell_word(path: Path) -> str:
    """A file as a shell reads it, and as no option of a command."""
    text = str(path)
    return quote(f"./{text}" if text.startswith("-") else text)


def file_stem(study: Study) -> str:
    """The name of a study as files can have it, without an ending."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", study.name).strip("-.") or "study"


def write_study_command(study: Study) -> str:
    """The shell command that writes the study's TOML file."""
    # The quoted end mark keeps the shell from reading the text; a line of TOML never equals it.
    return f"cat > {file_stem(study)}.toml <<'END'\n{to_toml(study)}END\n"


def duration_text(seconds: float) -> str:
    """`43 s`, `12 min`, `3.4 h`."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _join(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _date_text(finished: str) -> str:
    """The date and time of a record without its UTC offset."""
    return finished.replace("T", " ").removesuffix("+00:00")
