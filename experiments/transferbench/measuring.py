"""Measuring a task's models without training them, but for the range tests: all that a rule may look at.

units, measures   the optimizer's first step from the initialization, learnt from the first batch and seen on it
persistent        persistent energy: what batches agree on, seen on a batch that was not learnt from
ranges            what range tests suggest

Each seed has the initialization and the batches of the sweep's cell of that seed. `depthlr.update_energy` gives the
same energies of a step; `Probe` keeps their coherent part, the slope and the curvature of the loss as well.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import Optimizer

from depthlr.data.batches import batch_order
from depthlr.data.examples import Examples
from depthlr.energy.batches import GRADIENT_BATCHES
from depthlr.energy.persistent import persistent_energy
from depthlr.energy.step import step_direction
from depthlr.errors import DepthlrError
from depthlr.study.tasks import task_at
from depthlr.trace.depth import depth_of
from depthlr.trace.graph import Graph
from depthlr.trace.preserve import force_eager, preserve_state
from depthlr.trace.recorder import Watch
from depthlr.trace.tracing import trace
from depthlr.training.device import default_device
from experiments.range_tests import RANGE_TESTS, STEPS
from experiments.running import Deadline, OutOfTime, provenance
from experiments.tables import read_table, read_text, write_json, write_table
from experiments.transferbench.tasks import Task

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
Batch = tuple[Tensor, Tensor]
LossFn = Callable[[Any, Tensor], Tensor]
Direction = Mapping[str, Tensor]


def measure_task(task: Task, *, data: Path, out: Path, until: Deadline) -> bool:
    """Go on with a task, size by size and part by part; True when nothing of it is left to measure."""
    check_own(task, out)  # before it goes on with another's
    rows = {kind: read_rows(task, kind, out) for kind in TABLES}
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
            write_table(_file(task, kind, out), TABLES[kind], rows[kind])
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


def read_rows(task: Task, kind: str, folder: Path) -> list[dict[str, Any]]:
    """The rows of a table, as text; none of one that has not been written yet.

    Args:
        task: what was measured.
        kind: a name of TABLES.
        folder: where the tables lie.
    """
    file = _file(task, kind, folder)
    return [*read_table(file, TABLES[kind])] if file.is_file() else []


def _file(task: Task, kind: str, folder: Path) -> Path:
    return folder / f"{task.name}.{kind}.csv"


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


def _rounded(of: object, names: Sequence[str]) -> dict[str, float]:
    return {name: _short(getattr(of, name)) for name in names}


def _short(number: float) -> float:
    """As many digits as two devices agree on, so that tables stay small."""
    return float(f"{number:.{DIGITS}g}")


class Models:
    """One model in memory, which is initialized anew for every measurement; the examples lie on the device."""

    def __init__(self, task: Task, size: int, examples: Examples) -> None:
        self.size = size
        self._trained = task_at(task.study, size, examples)
        self._model = self._trained.build().to(default_device())
        self.loss_fn = self._trained.loss_fn

    def fresh(self, seed: int) -> nn.Module:
        """The model in a seed's initialization, with no trace of what was done to it before."""
        self._trained.initialize(self._model, seed)
        for module in self._model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.reset_running_stats()
        return self._model

    def batches(self, seed: int, steps: int) -> Iterator[Batch]:
        """The first batches of a cell of that seed."""
        examples, limit = self._trained.examples, self._trained.limit
        count = len(examples) if limit is None else min(limit, len(examples))
        for indices in batch_order(count, self._trained.training.batch, steps, seed):
            yield examples.batch(indices.to(default_device()))

    def optimizers(self, model: nn.Module) -> list[Optimizer]:
        """Those of a cell, at a rate that is set or divided out later."""
        return self._trained.training.make_optimizers(model, 1e-3)


@dataclass(frozen=True)
class Change:
    """Mean squares at rate 1, over examples and coordinates."""

    energy: float  # of the change
    mean_square: float  # of the value itself
    coherent: float  # of the change averaged over the examples first

    @property
    def relative(self) -> float:
        """Energy in units of the value's own mean square."""
        return self.energy / self.mean_square if self.mean_square > 0 else math.inf


@dataclass(frozen=True)
class Step:
    """At one initialization and along one direction. `hidden` are the units but the head, as mean energy has it."""

    hidden: tuple[Change, ...]
    readout: Change
    loss: float
    slope: float  # g.d, below 0 where the step descends
    curvature: float  # d'Hd
    gauss_newton: float  # d'Gd: the curvature of the loss in the readout alone
    seconds: float  # for the changes: gradient, direction, forward-mode pass
    curvature_seconds: float  # for d'Hd besides


class Probe:
    """Measures steps of one model, whose graph is recorded once."""

    def __init__(self, model: nn.Module, inputs: Tensor, loss_fn: LossFn) -> None:
        self.model, self.loss_fn = model, loss_fn
        self.graph: Graph = trace(model, (inputs,), keep_training_mode=True)
        self.depth = depth_of(self.graph)

    def next_step(self, batch: Batch, optimizer: Any) -> Step:
        """The optimizer's real next step (an object, a list or a factory), learnt from this batch and seen on it."""
        start = now(self.model)
        loss, gradients = self._gradients(batch)
        direction = step_direction(optimizer, self.model, gradients)
        changes, readout, gauss_newton = self._changes(batch[0], direction)
        slope = _product(gradients, direction)
        middle = now(self.model)
        curvature = self._curvature(batch, direction)
        hidden = tuple(c for c, u in zip(changes, self.depth.units, strict=True) if u.role != "head") or tuple(changes)
        return Step(hidden, readout, loss, slope, curvature, gauss_newton, middle - start, now(self.model) - middle)

    def _gradients(self, batch: Batch) -> tuple[float, dict[str, Tensor]]:
        leaves = _leaves(self.model)
        with self._conditions():
            loss = self.loss_fn(functional_call(self.model, leaves, (batch[0],)), batch[1])
            found = torch.autograd.grad(loss, list(leaves.values()))
        return float(loss.detach()), dict(zip(leaves, found, strict=True))

    def _curvature(self, batch: Batch, direction: Direction) -> float:
        """d'Hd, by differentiating g.d once more."""
        leaves = _leaves(self.model)
        with self._conditions():
            loss = self.loss_fn(functional_call(self.model, leaves, (batch[0],)), batch[1])
            gradients = torch.autograd.grad(loss, list(leaves.values()), create_graph=True)
            slope = sum((g * direction[n]).sum() for n, g in zip(leaves, gradients, strict=True))
            assert isinstance(slope, Tensor)
            found = torch.autograd.grad(slope, list(leaves.values()), allow_unused=True)
        bends = {n: bend for n, bend in zip(leaves, found, strict=True) if bend is not None}
        return _product(bends, direction)

    def _changes(self, inputs: Tensor, direction: Direction) -> tuple[list[Change], Change, float]:
        states = [unit.state for unit in self.depth.units]
        seen: dict[int, Tensor] = {}

        def see(node: int, value: Tensor) -> None:
            seen[node] = _squares(value)

        with self._conditions(), forward_ad.dual_level(), torch.no_grad():
            duals = {
                name: forward_ad.make_dual(p.detach(), direction[name])  # type: ignore[no-untyped-call]
                for name, p in self.model.named_parameters()
            }
            with Watch(self.graph, set(states), see).recorder(self.model, duals, ((inputs,), {})):
                output = functional_call(self.model, duals, (inputs,))
            readout = _squares(output)
            bend = _gauss_newton(output)
        *rows, last = torch.stack([*(seen[node] for node in states), readout]).tolist()
        return [Change(*row) for row in rows], Change(*last), bend

    @contextlib.contextmanager
    def _conditions(self) -> Iterator[None]:
        # As in depthlr.energy: forward mode has no formula for the fused attention kernels.
        with force_eager(), preserve_state(self.model, 0), sdpa_kernel(SDPBackend.MATH):
            yield


def now(model: nn.Module) -> float:
    """Seconds of the performance counter, when the model's device has done all it was asked."""
    if next(model.parameters()).is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter()


def _leaves(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().requires_grad_() for name, p in model.named_parameters()}


def _product(of: Direction, direction: Direction) -> float:
    return float(torch.stack([(value * direction[name]).double().sum() for name, value in of.items()]).sum())


def _squares(value: Tensor) -> Tensor:
    """(energy, mean square, coherent energy) of a dual tensor whose first dimension counts the examples."""
    primal, tangent = forward_ad.unpack_dual(value)  # type: ignore[no-untyped-call]
    tangent = torch.zeros_like(primal) if tangent is None else tangent
    return torch.stack([part.square().mean().double() for part in (tangent, primal, tangent.mean(0))])


def _gauss_newton(logits: Tensor) -> float:
    """d'Gd of the mean cross-entropy: the variance of the change of the logits under the prediction."""
    primal, tangent = forward_ad.unpack_dual(logits)  # type: ignore[no-untyped-call]
    share = primal.softmax(-1)
    variance = (share * tangent.square()).sum(-1) - (share * tangent).sum(-1).square()
    return float(variance.mean())


# What is measured together, by the tables it is written to: units first, so that every step has its own.
PARTS: dict[tuple[str, ...], Callable[[Models], Rows]] = {
    ("units", "measures"): first_steps,
    ("persistent",): persistent_energies,
    ("ranges",): range_tests,
}
