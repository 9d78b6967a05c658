"""Measuring a task's models without training them, but for the range tests: all that a rule may look at.

Three moments, eight seeds, each seed with the initialisation and the batches of the sweep's cell of that seed:

first   the optimizer's first step, at the initialisation
centred the same, learnt as if the readout were zero
few     the mean of its first five steps at a tenth of the rate of energy 1, seen from the initialisation

and with three of the seeds a ramp from a tenth of the rate of energy 1.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.transferbench.probe import Batch, Probe
from benchmarks.transferbench.ramp import STEPS as RAMP_STEPS
from benchmarks.transferbench.ramp import run_ramp
from benchmarks.transferbench.range_tests import RANGE_TESTS, STEPS
from benchmarks.transferbench.step import Step
from benchmarks.transferbench.task import Task
from torch import Tensor, nn
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
RAMP_SEEDS = range(3)
RANGE_SEEDS = range(1)  # one run is what people do
FEW = 5
DIGITS = 5
SMALL = RAMP_START = 0.1  # of the rate at which the largest energy is 1: the model hardly moves
NUMBERS = ("loss", "slope", "curvature", "gauss_newton", "seconds", "curvature_seconds")
CHANGES = ("energy", "mean_square", "coherent")
STEPS_TABLE = ("size", "depth", "plain", "residual", "width", "seed", "moment", *NUMBERS)
UNITS_TABLE = ("size", "seed", "moment", "unit", *CHANGES)  # the unit is a number, or `readout`
RAMPS_TABLE = ("size", "seed", "rate", "loss", "seconds")  # the seconds of the whole ramp
RANGES_TABLE = ("size", "seed", "test", "rate", "seconds")
TABLES = {"measures": STEPS_TABLE, "units": UNITS_TABLE, "ramps": RAMPS_TABLE, "ranges": RANGES_TABLE}
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
    starts: dict[int, float] = {}
    for seed in SEEDS:
        fresh(seed)
        for moment, step in moments(probe, trained, seed):
            key = {"seed": seed, "moment": moment}
            rows["measures"].append(place | key | _rounded(step, NUMBERS))
            for unit, change in [*enumerate(step.hidden), ("readout", step.readout)]:
                rows["units"].append({"size": size, "unit": unit} | key | _rounded(change, CHANGES))
            if moment == "first" and seed in RAMP_SEEDS:
                starts[seed] = RAMP_START * _rate_of_energy_1(step)
    for seed, start in starts.items():
        rows["ramps"] += [{"size": size} | row for row in _ramp_rows(trained, fresh(seed), seed, start)]
    rows["ranges"] = [{"size": size} | row for row in _range_rows(trained, fresh)]
    return rows


def _rounded(of: object, names: Sequence[str]) -> dict[str, float]:
    """Fields to as many digits as two devices agree on, so that tables stay small."""
    return {name: float(f"{getattr(of, name):.{DIGITS}g}") for name in names}


def moments(probe: Probe, trained: Trained, seed: int) -> Iterator[tuple[str, Step]]:
    """The moments of one seed; the model is left as it was."""
    model, batches = probe.model, list(_batches(trained, seed, FEW))

    def make(parameters: list[nn.Parameter], rate: float = 1e-3) -> list[Optimizer]:
        return make_optimizers(trained.training, parameters, rate)

    first = probe.next_step(batches[0], make, curved=True)
    yield "first", first
    yield "centred", probe.next_step(batches[0], make, centred=True)
    rate = SMALL * _rate_of_energy_1(first)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    start = time.perf_counter()
    optimizers = make(list(model.parameters()), rate)
    for batch in batches:
        _train(model, optimizers, batch, trained)
    spent = time.perf_counter() - start
    direction = {name: (p.detach() - before[name]) / (FEW * rate) for name, p in model.named_parameters()}
    _set(model, before)
    few = probe.along(batches[0], direction)
    yield "few", replace(few, seconds=few.seconds + spent)


def _rate_of_energy_1(step: Step) -> float:
    """The largest energy counts, be it a unit's or the readout's."""
    return float(max(step.readout.energy, *(unit.energy for unit in step.hidden)) ** -0.5)


def _ramp_rows(trained: Trained, model: nn.Module, seed: int, start: float) -> Iterator[dict[str, Any]]:
    optimizers = make_optimizers(trained.training, list(model.parameters()), start)
    found = run_ramp(model, optimizers, _batches(trained, seed, RAMP_STEPS), trained.loss_fn, start)
    for rate, loss in zip(found.rates, found.losses, strict=True):
        numbers = {"rate": rate, "loss": loss, "seconds": found.seconds}
        yield {"seed": seed} | {name: float(f"{value:.{DIGITS}g}") for name, value in numbers.items()}


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


def _train(model: nn.Module, optimizers: list[Optimizer], batch: Batch, trained: Trained) -> None:
    model.zero_grad()
    trained.loss_fn(model(batch[0]), batch[1]).backward()  # type: ignore[no-untyped-call]
    for optimizer in optimizers:
        optimizer.step()


def _set(model: nn.Module, values: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(values[name])
