"""The zero-shot test: the rate tuned at one size, carried to every other by each rule, and trained there.

Oracles are the sweep's own tuned rates. A carried rate is trained at exactly that rate, with the same seeds and budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from depthlr.data.examples import Examples
from depthlr.errors import DepthlrError
from depthlr.models.build import build
from depthlr.study.description import DIGITS
from depthlr.study.results import Results
from depthlr.study.store import open_store
from depthlr.trace.depth import effective_depth
from depthlr.training.cell import Cell
from depthlr.training.device import default_device
from depthlr.transfer.recipe import MeasuredModel, Recipe
from depthlr.transfer.rules import make_rule
from experiments.paper.running.energies import initial_energies, initial_measured_rate
from experiments.paper.running.jobs import Place
from experiments.paper.running.tables import CARRIED, read_rows
from experiments.running import Deadline, train_cells
from experiments.tables import damaged, write_table

RULES = ("copy", "law", "pathsum", "am-mup", "measured")
INITIALIZATIONS = range(8)  # of the rules that measure
PLAN = ("rule", "size", "rate")


def train_carried(
    results: Results,
    source: int,
    examples: Examples,
    work: Place,
    deadline: Deadline,
    done: Callable[[], None],
    workers: int | None = None,
) -> list[dict[str, Any]]:
    """Rows of CARRIED, one a rule, target and seed; cells that an earlier call trained are not trained again.

    Args:
        results: the finished sweep.
        source: the size whose tuned rate is carried.
        examples: the data.
        work: where the carried rates and their cells are kept from call to call.
        deadline: when to stop.
        done: called after every finished cell.
        workers: processes on a CPU; one for each core by default.
    """
    study, depths = results.study, results.depths or {}
    rates = _planned(results, source, examples, work)
    wanted = [(rule, Cell(size, seed, rate)) for rule, size, rate in rates for seed in study.search.seeds]
    known = {kept.cell: kept for kept in results.records}
    with open_store(work.file("carried.sqlite"), study, data_digest=examples.digest, depths=depths) as store:
        known |= store.content().records
        missing = [cell for _, cell in wanted if cell not in known]
        train_cells(study, examples, missing, store, deadline, done=done, workers=workers)
        known |= store.content().records
    rows = []
    for rule, cell in wanted:
        kept = known[cell]
        ran = (cell.seed, cell.rate, kept.loss, kept.diverged, kept.seconds)
        rows.append(dict(zip(CARRIED, (rule, cell.size, depths.get(cell.size), *ran), strict=True)))
    return rows


def _planned(results: Results, source: int, examples: Examples, work: Place) -> list[tuple[str, int, float]]:
    """The carried rates, worked out once: energies differ in their last digits from one device to the next."""
    file, tuned = work.file("plan.csv"), results.tuned_rates.get(source)
    plan: list[tuple[str, int, float]] = []
    if file.is_file():
        plan = [(row["rule"], row["size"], row["rate"]) for row in read_rows(file, PLAN)]
        targets = [size for size in results.study.model.sizes if size != source]
        known = RULES[: len({rule for rule, _, _ in plan})]  # a rule that came later is worked out now
        if not plan or [(rule, size) for rule, size, _ in plan] != list(product(known, targets)):
            raise damaged(file, "does not hold a rate for every rule and target")
        if tuned is None or any(r != _written(tuned) for rule, _, r in plan if rule == "copy"):
            plan = []
    missing = [rule for rule in RULES if rule not in {known for known, _, _ in plan}]
    if missing:
        plan += _carried_rates(results, source, examples, missing)
        write_table(file, PLAN, [dict(zip(PLAN, row, strict=True)) for row in plan])
    return plan


def _carried_rates(
    results: Results, source: int, examples: Examples, rules: Sequence[str]
) -> list[tuple[str, int, float]]:
    """Rule, target size and rate."""
    study, rate = results.study, results.tuned_rates.get(source)
    if rate is None:
        raise DepthlrError(f"No rate inside the grid was tuned at {source} {study.model.vary}, so none can be carried.")

    @cache  # each size is measured once
    def recipe(name: str, size: int) -> Recipe:
        optimizer, where = study.training.optimizer, (study, size, examples, INITIALIZATIONS, default_device())
        if name == "am-mup":
            return Recipe(initial_energies(*where), optimizer=optimizer)
        depth = effective_depth(*build(study.model.spec_at(size), input=examples.input, meta=True))
        if name != "measured":
            return Recipe(depth, optimizer=optimizer)
        return Recipe(MeasuredModel(depth, initial_measured_rate(*where)), optimizer=optimizer)

    found = []
    for name in rules:
        rule = make_rule(name)
        for size in study.model.sizes:
            if size != source:
                carried = rule.carry(rate, recipe(name, source), recipe(name, size))
                found.append((name, size, _written(carried.rate)))
    return found


def has_carried(table: Path, results: Results, source: int) -> bool:
    """Does a table hold the tuned rate's losses by every rule?

    Args:
        table: the CSV.
        results: the sweep.
        source: the size whose tuned rate is carried.
    """
    if not table.is_file() or is_stale(table, results, source):
        return False
    return {row["rule"] for row in read_rows(table, CARRIED)} == set(RULES)


def is_stale(table: Path, results: Results, source: int | None) -> bool:
    """Are these the rows of a rate that is no longer the tuned one?

    Args:
        table: the CSV.
        results: the sweep.
        source: the size whose tuned rate is carried; None if none is.
    """
    if source is None or not table.is_file():
        return False
    copied = {row["rate"] for row in read_rows(table, CARRIED) if row["rule"] == "copy"}
    tuned = results.tuned_rates.get(source)
    return tuned is None or copied != {_written(tuned)}


def _written(rate: float) -> float:
    """With as many digits as a study's rates have."""
    return float(f"{rate:.{DIGITS}g}")
