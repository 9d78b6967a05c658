"""Measuring a task's models without training them, but for the range tests: all that a rule may look at.

units, measures   the optimizer's first step from the initialization, learnt from the first batch and seen on it
persistent        persistent energy: what batches agree on, seen on a batch that was not learnt from
ranges            what range tests suggest

Each seed has the initialization and the batches of the sweep's cell of that seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from depthlr.energy.batches import GRADIENT_BATCHES
from depthlr.energy.persistent import persistent_energy
from depthlr.errors import DepthlrError
from depthlr.training.device import default_device
from experiments.range_tests import RANGE_TESTS, STEPS
from experiments.running import Deadline, OutOfTime, provenance
from experiments.tables import read_table, read_text, write_json, write_table
from experiments.transferbench.models import Models
from experiments.transferbench.probe import Probe, now
from experiments.transferbench.task import Task

SEEDS = range(8)
RANGE_SEEDS = range(1)  # one run is what people do
DIGITS = 5
NUMBERS = ("loss", "slope", "curvature", "gauss_newton", "seconds", "curvature_seconds")
CHANGES = ("energy", "mean_square", "coherent")
PERSISTENT = ("energy", "total", "mean_square", "loss")
TABLES = {
    "measures": ("size", "depth", "plain", "residual", "width", "seed", *NUMBERS),
    "units": ("size", "seed", "unit", *CHANGES),  # the unit is a number, or `readout`
    "persistent": ("size", "seed", *PERSISTENT, "batches", "seconds"),
    "ranges": ("size", "seed", "test", "rate", "seconds"),
}
Rows = dict[str, list[dict[str, Any]]]


def measure_task(task: Task, *, data: Path, out: Path, until: Deadline) -> bool:
    """Go on with a task, size by size and part by part; True when nothing of it is left to measure."""
    check_own(task, out)  # before it goes on with another's
    files = {kind: out / f"{task.name}.{kind}.csv" for kind in TABLES}
    rows: Rows = {kind: [*read_table(file, TABLES[kind])] if file.is_file() else [] for kind, file in files.items()}
    done = {kind: {int(row["size"]) for row in table} for kind, table in rows.items()}
    missing = [
        (size, kinds) for size in task.study.model.sizes for kinds in PARTS if any(size not in done[k] for k in kinds)
    ]
    if not missing:
        return True
    examples = task.examples(data)
    facts = {"task": task.name, "split": task.split, "digest": task.study.digest, **provenance("fp32", examples)}
    examples = examples.to(default_device())
    for size, kinds in missing:
        try:
            until.check()
        except OutOfTime:
            return False
        found = PARTS[kinds](Models(task, size, examples))
        for kind in kinds:
            others = [row for row in rows[kind] if int(row["size"]) != size]  # but what an interrupted run left
            rows[kind] = others + [{"size": size} | row for row in found[kind]]
            write_table(files[kind], TABLES[kind], rows[kind])
        # Parts may be measured on different devices, so each says where it was.
        sizes, seeds = ({int(row[name]) for row in rows[kinds[-1]]} for name in ("size", "seed"))
        content = facts | {"sizes": sorted(sizes), "seeds": len(seeds)}
        write_json(out / f"{task.name}.{kinds[-1]}.json", content)
    return True


def check_own(task: Task, folder: Path) -> None:
    """Refuse what was measured of another task; tables from before digests were kept are taken on trust."""
    for kind in TABLES:
        facts = folder / f"{task.name}.{kind}.json"
        if facts.is_file() and json.loads(read_text(facts)).get("digest", task.study.digest) != task.study.digest:
            raise DepthlrError(f"{facts} is of another task than {task.name} is now: measure it anew.")


def first_steps(models: Models) -> Rows:
    """Changes, slope and curvature of a step."""
    batch = next(models.batches(0, 1))
    probe = Probe(models.fresh(0), batch[0], models.loss_fn)
    probe.next_step(batch, models.optimizers)  # the first run of a process picks algorithms
    depth = probe.depth
    place = {"depth": depth.total, "plain": depth.plain, "residual": depth.residual, "width": depth.width}
    rows: Rows = {"units": [], "measures": []}
    for seed in SEEDS:
        models.fresh(seed)
        step = probe.next_step(next(models.batches(seed, 1)), models.optimizers)
        rows["measures"].append(place | {"seed": seed} | _rounded(step, NUMBERS))
        for unit, change in [*enumerate(step.hidden), ("readout", step.readout)]:
            rows["units"].append({"seed": seed, "unit": unit} | _rounded(change, CHANGES))
    return rows


def persistent_energies(models: Models) -> Rows:
    """As `depthlr.suggest_rate` measures it, an initialization after the other."""

    def measured(seed: int) -> dict[str, Any]:
        model, batches = models.fresh(seed), list(models.batches(seed, GRADIENT_BATCHES + 1))
        start = now(model)
        found = persistent_energy(model, batches, models.loss_fn, models.optimizers)
        taken = {"batches": found.batches, "seconds": _short(now(model) - start)}
        return {"seed": seed} | taken | _rounded(found, PERSISTENT)

    measured(0)  # the first run of a process picks algorithms
    return {"persistent": [measured(seed) for seed in SEEDS]}


def range_tests(models: Models) -> Rows:
    """Two short trainings."""

    def tested(name: str, seed: int, steps: int) -> dict[str, Any]:
        model = models.fresh(seed)
        start = now(model)
        optimizers = models.optimizers(model)
        rate = RANGE_TESTS[name](model, optimizers, models.batches(seed, steps), models.loss_fn)
        return {"seed": seed, "test": name, "rate": rate, "seconds": now(model) - start}

    tested(next(iter(RANGE_TESTS)), 0, 1)  # the first run of a process picks algorithms
    return {"ranges": [tested(name, seed, STEPS) for seed in RANGE_SEEDS for name in RANGE_TESTS]}


# What is measured together, by the tables it is written to: units first, so that every step has its own.
PARTS: dict[tuple[str, ...], Callable[[Models], Rows]] = {
    ("units", "measures"): first_steps,
    ("persistent",): persistent_energies,
    ("ranges",): range_tests,
}


def _rounded(of: object, names: Sequence[str]) -> dict[str, float]:
    return {name: _short(getattr(of, name)) for name in names}


def _short(number: float) -> float:
    """As many digits as two devices agree on, so that tables stay small."""
    return float(f"{number:.{DIGITS}g}")
