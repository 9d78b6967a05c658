"""The comparison as Markdown: one rule per row, from committed tables alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from depthlr.energy.energy import Energy, EnergyOverSeeds, UnitEnergy
from depthlr.law.rules import transfer_by_power
from depthlr.trace.depth import Depth
from depthlr.trace.units import Unit
from depthlr.transfer.check import SizeCheck, Verdict, judge
from experiments.pages import markdown_table
from experiments.transferbench.known import Measured, read_counted, read_measured, read_oracle
from experiments.transferbench.rules import SUGGESTION, Rule, free
from experiments.transferbench.scores import (
    CARRIED,
    PERFECT,
    SUGGESTED,
    Coverage,
    Known,
    Pair,
    by_task,
    carried,
    coverage,
    coverage_of_pairs,
    floor,
    gain,
    suggested,
)
from experiments.transferbench.tasks import Split, Task

HEAD = (
    "rule",
    "tasks",
    "transfers",
    "median error",
    "90 % quantile",
    "worst task",
    "median regret",
    "90 % quantile",
    "seconds",
    "median error without a source",
    "90 % quantile",
    "gain of {} (95 % interval)",
)
NOTHING = "-"
SEEN = {"dev", "first"}  # the splits that may always be looked at
FAILS = 0.2  # decades by which a rule misses


def comparison(tasks: Sequence[Task], split: Split, rules: Mapping[str, Rule], ours: str, folder: Path) -> str:
    """The table of a split, what is missing from it, and how often our interval holds."""
    wanted = [task for task in tasks if task.split == split]
    names = {task.name for task in wanted}
    twins = [task for task in tasks if task.twin in names]
    known, missing = _read([*wanted, *twins], folder)
    ordinary = [known[task.name] for task in wanted if task.name in known]
    judged = {name: _judged_on(name, rule, ordinary, twins, known) for name, rule in rules.items()}
    errors = {name: [pair for one in judged[name] for pair in carried(rule, one)] for name, rule in rules.items()}
    rows = []
    for name, rule in rules.items():
        absolute = [abs(error) for one in judged[name] for error in suggested(rule, one)]
        better = None if name == ours else gain(by_task(errors[ours]), by_task(errors[name]))
        title = f"**{name}**" if name == ours else name
        rows.append((title, *_figures(errors[name], rule.cost is not free), *_spread(absolute), gain_text(better)))
    limit = [pair for one in ordinary for pair in floor(one)]
    title = f"floor: one seed against two (a perfect rule: {PERFECT:.2f} of it)"
    rows.append((title, *_figures(limit), *[NOTHING] * 3))
    table = markdown_table([title.format(ours) for title in HEAD], rows)
    notes = [*_intervals(errors[ours], ours), *_suggestions(rules, judged), *_verdicts(ordinary)]
    others = [task for task in tasks if task.split in SEEN - {split}]
    notes += _twins_of_all([*wanted, *others], tasks, rules, ours, known | _twinned(others, tasks, folder))
    each = _by_task({name: errors[name] for name in ("copy", "law", ours) if name in rules}, limit, ours)
    bullets = [f"- {note}" for note in (*notes, *_left_out(ordinary, missing, split))]
    return "\n".join([table, "", each, "", *bullets]) + "\n"


def unfinished(tasks: Sequence[Task], split: Split, folder: Path) -> list[str]:
    """What the tasks of a split lack, and their twins."""
    names = {task.name for task in tasks if task.split == split}
    return _read([task for task in tasks if task.name in names or task.twin in names], folder)[1]


def finished(tasks: Sequence[Task], split: Split, folder: Path) -> list[Known]:
    """The tasks of a split that were swept and measured."""
    return list(_read([task for task in tasks if task.split == split], folder)[0].values())


def _read(tasks: Iterable[Task], folder: Path) -> tuple[dict[str, Known], list[str]]:
    known, missing = {}, []
    for task in tasks:
        oracle, measured = read_oracle(task, folder), (read_counted if task.twin else read_measured)(task, folder)
        if oracle is None:
            missing.append(f"{task.name} (oracle)")
        elif measured is None:
            missing.append(f"{task.name} (measures)")
        else:
            known[task.name] = Known(task.twin or task.name, oracle, measured)
            parts = dict.fromkeys(part for one in measured.values() for part in one.lacks)
            missing += [f"{task.name} ({part})" for part in parts if not task.twin]
    return known, missing


def _judged_on(
    name: str, rule: Rule, ordinary: list[Known], twins: Iterable[Task], known: Mapping[str, Known]
) -> list[Known]:
    if rule.each_draw:
        return [alone for one in ordinary for alone in one.each_draw()]
    if not rule.own_models:
        return ordinary
    return [known[twin.name] for twin in twins if twin.rule == name and twin.name in known]


def _figures(pairs: Sequence[Pair], timed: bool = False) -> tuple[str, ...]:
    """Tasks, pairs, three figures of the error, two of the regret, the median cost."""
    medians = by_task(pairs)
    worst = max(medians, key=medians.__getitem__, default="")
    return (
        str(len(medians)),
        str(len(pairs)),
        *_spread([abs(pair.error) for pair in pairs]),
        f"{medians[worst]:.3f} ({worst})" if worst else NOTHING,
        *_regrets(pairs),
        f"{np.median([pair.seconds for pair in pairs]):.2g}" if timed and pairs else NOTHING,
    )


def _by_task(errors: Mapping[str, Sequence[Pair]], limit: Sequence[Pair], ours: str) -> str:
    """One task per row: medians, and the signed error of our rate from the smallest size to the largest."""
    head = [f"**{name}**" if name == ours else name for name in errors]
    rows = []
    medians, floors = {name: by_task(pairs) for name, pairs in errors.items()}, by_task(limit)
    for task in medians[ours]:
        own = [pair for pair in errors[ours] if pair.task == task]
        ends = min(pair.source for pair in own), max(pair.target for pair in own)
        longest = np.median([pair.error for pair in own if (pair.source, pair.target) == ends])
        cells = [*(medians[name].get(task) for name in errors), floors.get(task)]
        texts = [NOTHING if cell is None else f"{cell:.3f}" for cell in cells]
        rows.append([task, *texts, f"{longest:+.3f}"])
    return markdown_table(["median error of a task", *head, "floor", f"{ours}, smallest to largest, signed"], rows)


def gain_text(better: tuple[float, float, float] | None) -> str:
    """A gain with its interval, and whether it is significant, if there are enough tasks for an interval."""
    if better is None:
        return NOTHING
    mean, low, high = better
    if math.isnan(low):
        return f"{mean:+.3f}"
    significance = ", not significant" if low <= 0 <= high else ""
    return f"{mean:+.3f} ({low:+.3f} to {high:+.3f}){significance}"


def _spread(errors: Sequence[float]) -> tuple[str, str]:
    if not errors:
        return NOTHING, NOTHING
    return f"{np.median(errors):.3f}", f"{np.quantile(errors, 0.9):.3f}"


def _regrets(pairs: Sequence[Pair]) -> Iterator[str]:
    """Median and 90th percentile; with a sign where pairs below may really lie above."""
    values = sorted((pair.regret, pair.bound) for pair in pairs)
    for share in (0.5, 0.9):
        if not values:
            yield NOTHING
            continue
        place = math.ceil(share * (len(values) - 1))
        regret, _ = values[place]
        sign = "≥ " if any(bound for _, bound in values[: place + 1]) else ""
        yield "diverged" if math.isinf(regret) else f"{sign}{100 * regret:.1f} %"


def _intervals(pairs: Sequence[Pair], ours: str) -> Iterator[str]:
    held = coverage_of_pairs(pairs)
    if held is not None:
        yield _held(held, CARRIED, f"interval of a rate carried by {ours}")


def _suggestions(rules: Mapping[str, Rule], judged: Mapping[str, Sequence[Known]]) -> Iterator[str]:
    """Of the rates that `suggest_rate` gives."""
    errors: dict[str, list[float]] = {}
    sizes: dict[str, int] = {}  # draws of one size share its optimum, so they are one comparison
    for one in judged.get(SUGGESTION, ()):
        if found := list(suggested(rules[SUGGESTION], one)):
            errors.setdefault(one.name, []).extend(found)
            sizes[one.name] = len(found)
    held = coverage(errors, sizes, SUGGESTED, centred=True)
    if held is not None:
        middle = np.median([np.median(found) for found in errors.values()])
        text = _held(held, SUGGESTED, f"interval of a rate that {SUGGESTION} gives")
        yield f"{text} The median over tasks of the tasks' median signed errors is {middle:+.2f}."


def _twinned(wanted: Sequence[Task], tasks: Sequence[Task], folder: Path) -> dict[str, Known]:
    """Those with a twin, and the twins."""
    names = {task.name for task in wanted}
    twins = [task for task in tasks if task.twin in names]
    return _read([*(task for task in wanted if task.name in {twin.twin for twin in twins}), *twins], folder)[0]


def _twins_of_all(
    wanted: Sequence[Task], tasks: Sequence[Task], rules: Mapping[str, Rule], ours: str, known: Mapping[str, Known]
) -> Iterator[str]:
    """Rules on models of their own against ours, over several splits: one has few twins."""
    twins = [task for task in tasks if task.twin in {one.name for one in wanted}]
    found = by_task(pair for task in wanted if task.name in known for pair in carried(rules[ours], known[task.name]))
    for name, rule in rules.items():
        if rule.own_models:
            theirs = by_task(pair for one in _judged_on(name, rule, [], twins, known) for pair in carried(rule, one))
            shared = sorted(set(theirs) & set(found))
            if better := gain(found, theirs):
                means = [np.mean([errors[task] for task in shared]) for errors in (theirs, found)]
                splits = ", ".join(dict.fromkeys(task.split for task in tasks if task.name in shared))
                yield (
                    f"On the {len(shared)} tasks of {splits} with a twin, the error of {name} is {means[0]:.3f} and "
                    f"that of {ours} {means[1]:.3f} (means of the tasks' medians). The gain of {ours} is "
                    f"{gain_text(better)}."
                )


def _held(held: Coverage, level: float, what: str) -> str:
    return (
        f"The {level:.0%} {what}, computed from the other tasks, contains {held.share:.0%} of the tuned rates (95 % "
        f"binomial interval {held.low:.0%} to {held.high:.0%}). Its median half-width is {held.width:.2f} decades."
    )


def _verdicts(known: Sequence[Known]) -> Iterator[str]:
    found = [one for one in map(judgement, known) if one is not None]
    if found:
        yield sentence(found)


def _left_out(known: Sequence[Known], missing: Sequence[str], split: Split) -> Iterator[str]:
    cut = [f"{one.name} {size}" for one in known for size in one.oracle.curves if size not in one.sizes]
    if cut:
        yield f"Left out, because the tuned rate lies at an end of the grid or nothing was measured: {', '.join(cut)}."
    yield f"Missing from {split}: {', '.join(missing)}." if missing else f"No task of {split} is missing."


@dataclass(frozen=True)
class Judgement:
    """A task's verdict, and the largest error of carrying its smallest size's best rate by the law."""

    task: str
    verdict: Verdict
    error: float

    @property
    def fails(self) -> bool:
        return self.error > FAILS


def judgement(known: Known) -> Judgement | None:
    """None where persistent energies or optima are missing."""
    sizes = [size for size in known.sizes if known.measured[size].persistent]
    if len(sizes) < 2:
        return None
    found = judge([_as_measured(known.measured[size]) for size in sizes])
    best = {size: known.oracle.rate(size) or 0.0 for size in sizes}
    depths = {size: known.measured[size].depth for size in sizes}
    first = sizes[0]
    errors = [
        best[first] + math.log10(transfer_by_power(1.0, depths[first], depths[size])) - best[size] for size in sizes[1:]
    ]
    return Judgement(known.name, found.verdict, max(map(abs, errors)))


def sentence(judgements: Sequence[Judgement]) -> str:
    """How many failures were warned about, and how many warnings were false."""
    failing = [one for one in judgements if one.fails]
    fine = [one for one in judgements if not one.fails]
    warned = [one for one in failing if one.verdict is not Verdict.passed]
    missed = [f"{one.task} ({one.error:.2f})" for one in failing if one.verdict is Verdict.passed]
    return (
        f"In {len(failing)} tasks the law's rate, carried from the smallest size, misses the tuned rate of some size "
        f"by more than {FAILS:g} decades. `check_transfer` gives caution or fail for {len(warned)} of them"
        + (f" (not for {', '.join(missed)})" if missed else "")
        + f". Of the {len(fine)} other tasks, {sum(one.verdict is Verdict.passed for one in fine)} pass."
    )


def _as_measured(found: Measured) -> SizeCheck:
    """As `check_transfer` would have measured it; the width stands with a unit, as it reads it from there."""
    unit = Unit("plain", "body", "", "", found.width, 0, 0)
    stem = Unit("plain", "stem", "", "", found.width, 0, 0)
    energies = []
    for step in found.steps:
        # A stem is the first unit, if it is plain and residual updates follow.
        units = [stem if not place and found.residual else unit for place in range(len(step.hidden))]
        hidden = tuple(
            UnitEnergy(one, change.energy, change.mean_square) for one, change in zip(units, step.hidden, strict=True)
        )
        energies.append(Energy(hidden, step.readout.energy, step.readout.mean_square, step.loss))
    draws = tuple(draw.found for draw in found.persistent)
    return SizeCheck(found.size, Depth(found.depth, found.depth, (unit,)), EnergyOverSeeds(tuple(energies)), draws)
