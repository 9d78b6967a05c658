"""Sweeping a task for its oracle rates: the adaptive search, then its flanks, so that regret is no guess.

Unfinished work lies in a folder of its own and is resumed; the table is written at every stop, finished or not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from depthlr.data.examples import Examples
from depthlr.errors import DepthlrError
from depthlr.study.description import Study, difference, study_from_dict
from depthlr.study.record import Record
from depthlr.study.results import Results
from depthlr.study.store import open_store, read_store
from depthlr.trace.depth import Depth
from depthlr.training.cell import Cell
from experiments.running import Deadline, Facts, OutOfTime, provenance, read_facts, sweep_study, train_cells
from experiments.tables import read_text, write_json, write_table
from experiments.transferbench.tasks import Task

CELLS = ("size", "depth", "width", "seed", "rate", "loss", "diverged", "seconds")
FLANKS = (-16, -8, 8, 16)  # grid steps from the seeds' mean optimum: up to a decade to either side


def sweep_task(
    task: Task, precision: str, *, data: Path, work: Path, out: Path, until: Deadline, workers: int | None = None
) -> bool:
    """Go on with a task's sweep; True when nothing of it is left to run."""
    study, table = task.at(precision), out / f"{task.name}.json"
    if _is_complete(table, study):
        return True
    examples = task.examples(data)
    depths = task.depths(examples)
    stores = [work / f"{task.name}.{kind}" for kind in ("sqlite", "flanks.sqlite")]
    facts_file = work / f"{task.name}.facts.json"
    work.mkdir(parents=True, exist_ok=True)
    facts = read_facts(facts_file)
    facts.provenance = provenance(precision, examples)
    complete = False
    try:
        until.check()
        with facts.timing("sweep_seconds", facts_file):
            totals = {size: len(depth.units) for size, depth in depths.items()}
            results = sweep_study(study, examples, totals, stores[0], until, workers=workers)
            _run_flanks(results, examples, stores[1], until, workers)
        complete = True
    except OutOfTime:
        pass
    finally:
        found = [read_store(store) for store in stores if store.is_file()]
        own = [content for content in found if content.study.digest == study.digest]  # another's was refused
        if kept := [one for content in own for one in content.records.values()]:
            _write(task, study, kept, depths, facts, complete, out)
    return complete


def flanks(results: Results) -> list[Cell]:
    """The cells around each size's optimum that the search had no need of, every seed at the same rates."""
    search = results.study.search
    known = {kept.cell for kept in results.records}
    found = []
    for size in results.study.model.sizes:
        optima = [curve.optimum.rate for curve in results.curves if curve.size == size and curve.optimum]
        if optima:
            centre = round(sum(search.rates.index(rate) for rate in optima) / len(optima))
            places = (centre + step for step in FLANKS)
            rates = [search.rates[place] for place in places if 0 <= place < search.points]
            found += [Cell(size, seed, rate) for seed in search.seeds for rate in rates]
    return [cell for cell in found if cell not in known]


def _run_flanks(results: Results, examples: Examples, path: Path, until: Deadline, workers: int | None) -> None:
    with open_store(path, results.study, data_digest=examples.digest, depths=results.depths) as store:
        known = store.content().records
        missing = [cell for cell in flanks(results) if cell not in known]
        train_cells(results.study, examples, missing, store, until, workers=workers)


def _write(
    task: Task,
    study: Study,
    kept: Sequence[Record],
    depths: Mapping[int, Depth],
    facts: Facts,
    complete: bool,
    out: Path,
) -> None:
    content = {
        "task": task.name,
        "split": task.split,
        "complete": complete,
        "cells": len(kept),
        **facts.provenance,
        "sweep_seconds": round(facts.sweep_seconds, 2),
        "digest": study.digest,
        "units": {size: {"plain": depth.plain, "residual": depth.residual} for size, depth in depths.items()},
        "study": study.to_dict(),
    }
    write_table(out / f"{task.name}.csv", CELLS, [_row(one, depths) for one in sorted(kept, key=lambda k: k.cell)])
    write_json(out / f"{task.name}.json", content)


def _row(kept: Record, depths: Mapping[int, Depth]) -> dict[str, Any]:
    cell, depth = kept.cell, depths[kept.cell.size]
    values = (cell.size, depth.total, depth.width, cell.seed, cell.rate, kept.loss, kept.diverged, kept.seconds)
    return dict(zip(CELLS, values, strict=True))


def _is_complete(file: Path, study: Study) -> bool:
    """Does the finished table of this very sweep lie there already? That of another one is not written over."""
    if not file.is_file():
        return False
    content = json.loads(read_text(file))
    if content["complete"] and content["digest"] != study.digest:
        changes = ", ".join(difference(study_from_dict(content["study"]), study))
        raise DepthlrError(f"{file} is finished, and of another sweep ({changes}): move it, or choose another --out.")
    return bool(content["complete"])
