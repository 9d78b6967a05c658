"""Tables of runs, and records of these runs: a sweep whose work folder is gone goes on from its table.

A table has no loss of every step, so a record made from it has none either; its row is kept as it was written.
Runs of another table count as well where they are the same runs: a variant that is judged by the training loss
(`metric=budget`) trains what its recipe trains, and a twin at the smallest size is the model itself.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from depthlr.errors import DepthlrError
from depthlr.study.description import Study
from depthlr.study.record import Environment, Record
from depthlr.study.results import Results
from depthlr.training.cell import Cell
from experiments.realbench.models import BASE
from experiments.realbench.recipes import RealRecipe

COLUMNS = (
    "size",
    "depth",
    "seed",
    "rate",
    "validation",  # loss on held-out data at the end; empty where the run diverged
    "accuracy",
    "validation_25",  # after a quarter of the steps, and so on
    "validation_50",
    "validation_75",
    "train_first",  # mean training loss of the first tenth of the steps
    "train_mean",  # of all steps
    "train_last",  # of the last tenth
    "seconds",
)
SHARES = (25, 50, 75)
Row = Mapping[str, str]
Rows = dict[Cell, Row]


def read_rows(path: Path) -> Rows:
    """The runs of a table, by cell; none if there is no table."""
    if not path.is_file():
        return {}
    with open(path, newline="") as file:
        return {Cell(int(row["size"]), int(row["seed"]), float(row["rate"])): row for row in csv.DictReader(file)}


def read_facts(table: Path) -> dict[str, Any]:
    """What lies beside a table; an unfinished one of no study if nothing does."""
    facts = table.with_suffix(".json")
    if not facts.is_file():
        return {"study": None, "complete": False, "environments": []}
    found: dict[str, Any] = json.loads(facts.read_text())
    return found


def is_finished(table: Path) -> bool:
    """Is this table written to its end?"""
    return bool(read_facts(table)["complete"])


def known_rows(recipe: RealRecipe, tables: Path) -> Rows:
    """The runs of this recipe that its own table holds, or another one: what is not to be trained again.

    Raises:
        DepthlrError: its own table is of another study.
    """
    own = tables / f"{recipe.name}.csv"
    study = read_facts(own)["study"]
    if study not in (None, recipe.study.digest):
        raise DepthlrError(f"{own} is of another study: move it away, or undo the change of {recipe.name}.")
    found = dict(read_rows(own))
    for name, sizes in same_runs(recipe).items():
        others = read_rows(tables / f"{name}.csv")
        found |= {cell: row for cell, row in others.items() if cell not in found and cell.size in sizes}
    return {cell: row for cell, row in found.items() if cell.seed in recipe.study.search.seeds}


def same_runs(recipe: RealRecipe) -> dict[str, tuple[int, ...]]:
    """Other tables with runs of this recipe, and at which sizes."""
    base, *changes = recipe.name.split("+")
    sizes = recipe.study.model.sizes
    if "metricbudget" in changes:
        return {"+".join([base, *(change for change in changes if change != "metricbudget")]): sizes}
    others = [change for change in changes if not change.startswith("seeds")]
    if len(others) == 1 and others[0].startswith("power"):
        return {base: (BASE,)}
    return {}


def records_of(rows: Rows, study: Study) -> list[Record]:
    """The runs as a store keeps them."""
    judged = "train_mean" if study.training.metric == "budget" else "validation"
    steps = study.training.evaluation_steps()
    found = []
    for cell, row in rows.items():
        diverged = not row[judged]
        evaluations = b""
        if row["validation"]:
            losses = [*(float(row[f"validation_{share}"]) for share in SHARES), float(row["validation"])]
            accuracies = [math.nan] * len(SHARES) + [float(row["accuracy"]) if row["accuracy"] else math.nan]
            evaluations = np.array(list(zip(steps, losses, accuracies, strict=True)), "<f8").tobytes()
        loss = math.inf if diverged else float(row[judged])
        found.append(Record(cell, loss, diverged, float(row["seconds"]), "", b"", evaluations))
    return found


def environments_of(table: Path) -> list[Environment]:
    """What trained a table's runs."""
    return [Environment(**one) for one in read_facts(table)["environments"]]


def write_rows(results: Results, known: Rows, out: Path, *, complete: bool) -> None:
    """The runs as a table, by size, seed and rate, and beside it what trained them."""
    table = [row_of(record, results, known) for record in results.records if not record.failure]
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_suffix(".part")
    with open(part, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    part.replace(out)  # whole at any moment, for a machine may be taken away
    facts = {
        "study": results.study.digest,
        "complete": complete and len(table) == len(results.records),
        "runs": len(table),
        "gpu_seconds": round(sum(record.seconds for record in results.records), 1),
        "environments": [vars(one) for one in results.environments],
    }
    part.write_text(json.dumps(facts, indent=1) + "\n")
    part.replace(out.with_suffix(".json"))


def row_of(record: Record, results: Results, known: Rows) -> Mapping[str, Any]:
    """A run's row: as it was written before, or from the losses of its steps."""
    if record.cell in known and not record.losses:
        return known[record.cell]
    losses = np.frombuffer(record.losses, "<f4").astype(np.float64)
    tenth = max(1, results.study.training.run_steps // 10)
    row: dict[str, Any] = {
        "size": record.cell.size,
        "depth": (results.depths or {}).get(record.cell.size),
        "seed": record.cell.seed,
        "rate": repr(record.cell.rate),
        "seconds": f"{record.seconds:.2f}",
    }
    if not record.diverged:
        evaluations = record.evaluated()
        row |= {f"validation_{share}": f"{one.loss:.6f}" for share, one in zip(SHARES, evaluations, strict=False)}
        row |= {
            "validation": f"{evaluations[-1].loss:.6f}",
            "accuracy": f"{evaluations[-1].accuracy:.5f}",
            "train_first": f"{losses[:tenth].mean():.6f}",
            "train_mean": f"{losses.mean():.6f}",
            "train_last": f"{losses[-tenth:].mean():.6f}",
        }
    return row
