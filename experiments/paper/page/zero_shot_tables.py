"""The zero-shot test: carried rates against oracles, and the losses they train to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median, stdev

from depthlr.formatting import MINUS
from experiments.pages import markdown_table
from experiments.paper.page.kept import Carried, Kept, Sweep
from experiments.paper.page.words import NOT_YET, NOTHING, decades, exact, loss, rate
from experiments.paper.recipes import (
    PRINTED_MEDIANS,
    PRINTED_RATE,
    PRINTED_TRANSFERS,
    PRINTED_WINS,
    SOURCE,
    VIT_384_EPOCH_3,
    PrintedTransfer,
)
from experiments.paper.running.carried import RULES

NAMES = {"copy": "raw", "law": "law", "pathsum": "PathSum", "am-mup": "AM-μP", "measured": "measured"}
Rows = Mapping[int, Mapping[str, Carried]]


def zero_shot_tables(kept: Kept) -> str:
    """Errors, losses, and the medians over all targets."""
    sweep = kept.sweeps.get(VIT_384_EPOCH_3.name)
    if sweep is None or not sweep.carried:
        raw, law = (decades(PRINTED_MEDIANS[rule]) for rule in ("copy", "law"))
        return f"The transfer itself is {NOT_YET}. The paper: median log-rate error raw {raw}, law {law} decades."
    rows = _rows(sweep)
    return "\n\n".join([_medians(sweep, rows), _errors(sweep, rows), _losses(sweep, rows)])


def headline(kept: Kept) -> str:
    """The test in short; nothing where it was not run."""
    sweep = kept.sweeps.get(VIT_384_EPOCH_3.name)
    if sweep is None or not sweep.carried or not sweep.counts:
        return ""
    middle = [f"{NAMES[rule]} {decades(median(map(abs, each)))}" for rule, each in errors(sweep).items() if each]
    return (
        f"**Carrying a rate.** A ViT was tuned at {_source(sweep)} blocks, and its rate carried to {len(_rows(sweep))} "
        f"other depths. Median errors in decades: {', '.join(middle)}. The paper has raw "
        f"{decades(PRINTED_MEDIANS['copy'])}, law {decades(PRINTED_MEDIANS['law'])}. *Raw* is the copied rate. "
        "*PathSum* is the rule of Chen 2024. *AM-μP* compares mean energies. *Measured* is "
        "[`--rule measured`](guide.md), which compares persistent energies."
        f"\n\n{_against_raw(sweep)}"
    ).rstrip()


def errors(sweep: Sweep) -> dict[str, list[float]]:
    """log10(carried / oracle) by rule, one a target."""
    tuned = sweep.results.tuned_rates
    found: dict[str, list[float]] = {rule: [] for rule in shown(sweep)}
    for carried in sweep.carried:
        if carried.size in tuned:
            found[carried.rule].append(math.log10(carried.rate / tuned[carried.size]))
    return found


def shown(sweep: Sweep) -> list[str]:
    """The rules whose rates were trained."""
    trained = {carried.rule for carried in sweep.carried}
    return [rule for rule in RULES if rule in trained]


def oracle_losses(sweep: Sweep) -> dict[int, list[float]]:
    """The seeds' least losses by size, each at its own best rate: hard to beat with one rate for all seeds."""
    found: dict[int, list[float]] = {}
    for curve in sweep.results.curves:
        if curve.optimum is not None:
            found.setdefault(curve.size, []).append(curve.optimum.loss)
    return found


def _medians(sweep: Sweep, rows: Rows) -> str:
    found, best = errors(sweep), oracle_losses(sweep)
    sizes = {rule: [abs(error) for error in found[rule]] for rule in shown(sweep)}
    middle = {rule: median(each) if each else None for rule, each in sizes.items()}
    excess = {rule: _excess([row[rule] for row in rows.values()], best) for rule in shown(sweep)}
    lines = []
    for rule in shown(sweep):
        paper = PRINTED_MEDIANS.get(rule)
        beaten = None if rule == "copy" else sum(_lower(row, rule) for row in rows.values())
        lines.append(
            [
                NAMES[rule],
                NOTHING if paper is None else decades(paper),
                decades(middle[rule]),
                decades(max(sizes[rule], default=None)),
                "diverged" if excess[rule] == math.inf else decades(excess[rule]),
                NOTHING if beaten is None else f"{beaten} of {len(rows)}",
            ]
        )
    lines += [[NAMES[rule], NOTHING, NOT_YET, *[NOTHING] * 3] for rule in RULES if rule not in found]
    head = (
        "rule",
        "paper, median error",
        "ours, median error",
        "largest",
        "median excess loss",
        "less loss than raw on",
    )
    rate_text = rate(sweep.results.tuned_rates.get(_source(sweep)))
    return (
        f"Source: {_source(sweep)} blocks, tuned rate {rate_text} (paper {rate(PRINTED_RATE)}), protocol "
        f"{sweep.protocol}. Errors are |log10(carried / oracle)|. Excess loss is over the oracle’s. By the paper’s "
        f"count its law has less loss than raw on {PRINTED_WINS} of 7.\n\n{markdown_table(head, lines)}\n\n"
        f"The least median error is that of {_least(middle)}. The least median excess loss is that of {_least(excess)}."
        f"\n\n{_against_raw(sweep)}"
    ).rstrip()


def _errors(sweep: Sweep, rows: Rows) -> str:
    tuned = sweep.results.tuned_rates
    printed = {row.blocks: row for row in PRINTED_TRANSFERS}
    lines = []
    for size, row in sorted(rows.items()):
        oracle, paper = tuned.get(size), printed.get(size)
        ours = [decades(abs(math.log10(row[rule].rate / oracle)) if oracle else None) for rule in shown(sweep)]
        lines.append([str(size), *_paper_rates(paper), rate(oracle), rate(row["law"].rate), *ours])
    head = ("blocks", "paper: oracle", "law", "raw error", "law error", "ours: oracle", "law")
    return "Rates and errors, decades:\n\n" + markdown_table(
        (*head, *(f"{NAMES[rule]} error" for rule in shown(sweep))), lines
    )


def _losses(sweep: Sweep, rows: Rows) -> str:
    printed = {row.blocks: row for row in PRINTED_TRANSFERS}
    best = oracle_losses(sweep)
    lines = []
    for size, row in sorted(rows.items()):
        paper = printed.get(size)
        stated = NOTHING if paper is None else f"{exact(paper.raw_loss)} / {exact(paper.scaled_loss)}"
        lines.append([str(size), stated, loss(best.get(size, [])), *(loss(row[rule].losses) for rule in shown(sweep))])
    head = ("blocks", "paper: raw / law", "ours: oracle", *(NAMES[rule] for rule in shown(sweep)))
    return "Training loss of the last epoch, mean of the seeds:\n\n" + markdown_table(head, lines)


def _paper_rates(paper: PrintedTransfer | None) -> list[str]:
    if paper is None:
        return [NOTHING] * 4
    return [rate(paper.oracle), rate(paper.scaled), decades(paper.raw_error), decades(paper.scaled_error)]


def _excess(carried: Sequence[Carried], best: Mapping[int, Sequence[float]]) -> float | None:
    """Median over targets of the mean loss over the oracle's; a seed that diverged makes it infinite."""
    excess = [fmean(one.losses) - fmean(best[one.size]) for one in carried if best.get(one.size)]
    return median(excess) if excess else None


def _least(by_rule: Mapping[str, float | None]) -> str:
    known = {rule: value for rule, value in by_rule.items() if value is not None}
    return NAMES[min(known, key=known.__getitem__)] if known else NOTHING


def _rows(sweep: Sweep) -> Rows:
    rows: dict[int, dict[str, Carried]] = {}
    for carried in sweep.carried:
        rows.setdefault(carried.size, {})[carried.rule] = carried
    return rows


def _against_raw(sweep: Sweep) -> str:
    """The rules' loss less that of the copied rate, a target each: mean and standard error."""
    found = []
    for rule, paper in (("law", f", in the paper on {PRINTED_WINS} of 7"), ("measured", "")):
        gains = [fmean(row[rule].losses) - fmean(row["copy"].losses) for row in _rows(sweep).values() if rule in row]
        if len(gains) > 1 and all(map(math.isfinite, gains)):
            error = stdev(gains) / math.sqrt(len(gains))
            less = f"Less on {sum(gain < 0 for gain in gains)} of {len(gains)}{paper}."
            mean = f"{fmean(gains):+.4f}".replace("-", MINUS)
            found.append(f"- {NAMES[rule]}: {mean} ± {error:.4f}. {less}")
    if not found:
        return ""
    return "\n".join(["Training loss minus that of the raw rate, mean ± standard error:", "", *found])


def _lower(row: Mapping[str, Carried], rule: str) -> bool:
    return fmean(row[rule].losses) < fmean(row["copy"].losses)


def _source(sweep: Sweep) -> int:
    """The paper's 12 blocks, or whichever size no rate was carried to."""
    carried = {one.size for one in sweep.carried}
    left = [size for size in sweep.results.study.model.sizes if size not in carried]
    return left[0] if left else SOURCE
