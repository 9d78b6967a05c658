"""Measuring a task's models without training them, but for the range tests: all that a rule may look at.

The optimizer's first step from the initialisation, in four ways, with eight seeds, each of which has the initialisation
and the batches of the sweep's cell of that seed:

first         learnt from the first batch, and seen on it
centred       the same, learnt as if the readout were zero
many          learnt from the mean gradient of sixteen batches, and seen on another one
many centred  both
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.transferbench.probe import Batch, Probe
from benchmarks.transferbench.range_tests import RANGE_TESTS, STEPS
from benchmarks.transferbench.step import Step
from benchmarks.transferbench.task import Task
from torch import nn
from torch.optim import Optimizer

from depthlr.data.examples import Examples
from depthlr.data.order import batch_order
from depthlr.recipes.running.deadline import Deadline, OutOfTime
from depthlr.recipes.running.provenance import device, provenance
from depthlr.recipes.table import read_table, write_table, write_text
from depthlr.study.task import task_at
from depthlr.training.optimizer import make_optimizers
from depthlr.training.task import Task as Trained

SEEDS = range(8)
RANGE_SEEDS = range(1)  # one run is what people do
MANY = 16  # batches: what they agree on persists, the rest averages out over a run
DIGITS = 5
NUMBERS = ("loss", "slope", "curvature", "gauss_newton", "seconds", "curvature_seconds")
CHANGES = ("energy", "mean_square", "coherent")
STEPS_TABLE = ("size", "depth", "plain", "residual", "width", "seed", "moment", *NUMBERS)
UNITS_TABLE = ("size", "seed", "moment", "unit", *CHANGES)  # the unit is a number, or `readout`
RANGES_TABLE = ("size", "seed", "test", "rate", "seconds")
TABLES = {"measures": STEPS_TABLE, "units": UNITS_TABLE, "ranges": RANGES_TABLE}
Rows = dict[str, list[dict[str, Any]]]


def measure_task(task: Task, *, data: Path, out: Path, until: Deadline) -> bool:
    """Go on with a task, size by size; True when nothing of it is left to measure."""
    files = {kind: out / f"{task.name}.{kind}.csv" for kind in TABLES}
    rows: Rows = {kind: [*read_table(file, TABLES[kind])] if file.is_file() else [] for kind, file in files.items()}
    # The last table written says which sizes are done.
    done = {int(row["size"]) for row in rows["ranges"]}
    rows = {kind: [row for row in table if int(row["size"]) in done] for kind, table in rows.items()}
    missing = [size for size in task.study.model.sizes if size not in done]
    if not missing:
        return True
    examples = task.examples(data)
    facts = {"task": task.name, "split": task.split, **provenance("fp32", examples)}
    for size in missing:
        try:
            until.check()
        except OutOfTime:
            return False
        for kind, found in measure_size(task, size, examples).items():
            rows[kind] += found
            write_table(files[kind], TABLES[kind], rows[kind])
        sizes = {"sizes": sorted({int(row["size"]) for row in rows["ranges"]}), "seeds": len(SEEDS)}
        write_text(out / f"{task.name}.measures.json", json.dumps(facts | sizes, indent=1) + "\n")
    return True


def measure_size(task: Task, size: int, examples: Examples) -> Rows:
    """Rows of every table for the models of one size."""
    on = examples.to(device())
    trained = task_at(task.study, size, on)
    model = trained.build()

    def fresh(seed: int) -> nn.Module:
        trained.initialise(model.cpu(), seed)
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.reset_running_stats()
        return model.to(device())

    first = next(_batches(trained, 0, 1))
    probe = Probe(fresh(0), first[0], trained.loss_fn)
    depth = probe.depth
    next(moments(probe, trained, 0))  # the first run of a process picks algorithms
    place = {"size": size, "depth": depth.total, "plain": depth.plain, "residual": depth.residual, "width": depth.width}
    rows: Rows = {kind: [] for kind in TABLES}
    for seed in SEEDS:
        fresh(seed)
        for moment, step in moments(probe, trained, seed):
            key = {"seed": seed, "moment": moment}
            rows["measures"].append(place | key | _rounded(step, NUMBERS))
            for unit, change in [*enumerate(step.hidden), ("readout", step.readout)]:
                rows["units"].append({"size": size, "unit": unit} | key | _rounded(change, CHANGES))
    rows["ranges"] = [{"size": size} | row for row in _range_rows(trained, fresh)]
    return rows


def _rounded(of: object, names: Sequence[str]) -> dict[str, float]:
    """Fields to as many digits as two devices agree on, so that tables stay small."""
    return {name: float(f"{getattr(of, name):.{DIGITS}g}") for name in names}


def moments(probe: Probe, trained: Trained, seed: int) -> Iterator[tuple[str, Step]]:
    """The moments of one seed."""
    *batches, unseen = _batches(trained, seed, MANY + 1)

    def make(parameters: list[nn.Parameter]) -> list[Optimizer]:
        return make_optimizers(trained.training, parameters, 1e-3)

    yield "first", probe.next_step(batches[0], make, curved=True)
    yield "centred", probe.next_step(batches[0], make, centred=True)
    yield "many", probe.next_step(unseen, make, learnt_from=batches)
    yield "many centred", probe.next_step(unseen, make, learnt_from=batches, centred=True)


def _range_rows(trained: Trained, fresh: Callable[[int], nn.Module]) -> Iterator[dict[str, Any]]:
    for seed in RANGE_SEEDS:
        for name, test in RANGE_TESTS.items():
            model = fresh(seed)
            batches = _batches(trained, seed, STEPS)
            start = time.perf_counter()
            optimizers = make_optimizers(trained.training, list(model.parameters()), 1e-3)
            rate = test(model, optimizers, batches, trained.loss_fn)
            yield {"seed": seed, "test": name, "rate": rate, "seconds": time.perf_counter() - start}


def _batches(trained: Trained, seed: int, steps: int) -> Iterator[Batch]:
    """The first batches of a cell of that seed."""
    count = len(trained.examples) if trained.limit is None else min(trained.limit, len(trained.examples))
    for indices in batch_order(count, trained.training.batch, steps, seed):
        yield trained.examples.batch(indices.to(device()))
