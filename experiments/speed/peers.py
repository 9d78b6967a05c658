"""Against what people use instead: the plain loop over the grid, Optuna, Ray Tune, and depthlr's adaptive sweep.

    python -m experiments.speed peers                          every cell of every method: 15 minutes on two cores
    python -m experiments.speed peers --sample 8 --rounds 4    on a machine that others use too
    pip install optuna "ray[tune]"                      the peers; one that is missing is left out

One command, one machine, one answer: the same models, seeds, batches and grid of rates, the data in memory. The plain
loop, Optuna and Ray Tune call the very same function (`train_plainly`) once a cell, and their models are described
before the clock starts; depthlr's time has everything in it, from starting its processes to the last commit of its
store. The plain loop runs the whole grid once, so that optima can be compared. With --sample, Optuna and Ray Tune, and
the plain loop in later rounds, run every K-th rate, and their time is scaled up; of several rounds the fastest counts.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from depthlr.data import load
from depthlr.study import Models, Search, Study, Training, sweep, task_at
from depthlr.study.record import Judge, make_record
from depthlr.training import Cell, Task, open_executor
from experiments.plain_loop import train_plainly

FAMILIES = {"resnet?width=12": "blocks", "cnn?width=12": "layers"}
Place = tuple[str, int, int]  # model, size, seed
Tasks = dict[tuple[str, int], Task]  # by model and size


@dataclass(frozen=True)
class Ran:
    """What a method did: `setup` are the seconds that do not grow with the cells, `best` the index of the best rate."""

    method: str
    cells: int
    seconds: float
    best: dict[Place, int]
    setup: float = 0.0
    every: int = 1  # it ran every so many-th rate of the grid

    @property
    def full(self) -> float:
        """Seconds for the whole grid, at the same cost a cell."""
        return self.setup + (self.seconds - self.setup) * self.every


def loss_of(task: Task, size: int, seed: int, rate: float) -> float:
    """One cell by the plain loop."""
    cell = Cell(size, seed, rate)
    return make_record(cell, train_plainly(task, cell), Judge("budget")).loss


def plain(tasks: Tasks, search: Search, every: int) -> Ran:
    best: dict[Place, int] = {}
    rates = search.rates[::every]
    start = time.perf_counter()
    for (model, size), task in tasks.items():
        for seed in search.seeds:
            losses = [loss_of(task, size, seed, rate) for rate in rates]
            best[model, size, seed] = losses.index(min(losses))
    seconds = time.perf_counter() - start
    return Ran("plain loop", len(best) * len(rates), seconds, best, every=every)


def optuna_grid(tasks: Tasks, search: Search, every: int) -> Ran:
    """A study a curve, a trial a cell, kept in memory."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    best: dict[Place, int] = {}
    rates = search.rates[::every]
    start = time.perf_counter()
    for (model, size), task in tasks.items():
        for seed in search.seeds:

            def objective(trial: Any, task: Task = task, size: int = size, seed: int = seed) -> float:
                return loss_of(task, size, seed, trial.suggest_float("rate", search.low, search.high, log=True))

            study = optuna.create_study(sampler=optuna.samplers.GridSampler({"rate": rates}))
            study.optimize(objective, n_trials=len(rates))
            best[model, size, seed] = rates.index(study.best_params["rate"])
    seconds = time.perf_counter() - start
    version = f"Optuna {optuna.__version__}, GridSampler"
    return Ran(version, len(best) * len(rates), seconds, best, every=every)


def ray_grid(tasks: Tasks, search: Search, every: int, folder: Path, cores: int) -> Ran:
    """A trial a cell, a core a trial. Processes are kept from trial to trial, and nothing is logged, which helps Ray.

    All before the first trial's end and after the last one's is setup, so that a sample is charged for it once.
    """
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1"}
    import ray
    from ray import tune

    rates = search.rates[::every]
    start = time.perf_counter()
    ray.init(num_cpus=cores, include_dashboard=False, logging_level="error", log_to_driver=False)
    try:
        objective = tune.with_parameters(_ray_trial, tasks=tasks)
        tuner = tune.Tuner(
            tune.with_resources(objective, {"cpu": 1}),
            param_space={
                "task": tune.grid_search(list(tasks)),
                "seed": tune.grid_search(list(search.seeds)),
                "rate": tune.grid_search(list(rates)),
            },
            tune_config=tune.TuneConfig(metric="loss", mode="min", max_concurrent_trials=cores, reuse_actors=True),
            run_config=tune.RunConfig(storage_path=str(folder), verbose=0),
        )
        found = tuner.fit()
    finally:
        ray.shutdown()
    seconds = time.perf_counter() - start
    assert not found.errors, found.errors[0]
    ends = [trial.metrics["end"] for trial in found]
    losses: dict[Place, dict[float, float]] = {}
    for trial in found:
        (model, size), seed = trial.config["task"], trial.config["seed"]
        losses.setdefault((model, size, seed), {})[trial.config["rate"]] = trial.metrics["loss"]
    best = {place: rates.index(min(curve, key=curve.__getitem__)) for place, curve in losses.items()}
    version = f"Ray Tune {ray.__version__}, grid_search, {cores} at a time"
    cells = sum(map(len, losses.values()))
    return Ran(version, cells, seconds, best, setup=seconds - (max(ends) - min(ends)), every=every)


def _ray_trial(config: dict[str, Any], tasks: Tasks) -> dict[str, float]:
    torch.set_num_threads(1)
    model, size = config["task"]
    return {"loss": loss_of(tasks[model, size], size, config["seed"], config["rate"]), "end": time.time()}


def depthlr_sweep(studies: list[Study], folder: Path) -> Ran:
    """`study.sweep` into a store on disk."""
    examples = load("digits")
    best: dict[Place, int] = {}
    cells = 0
    start = time.perf_counter()
    for number, study in enumerate(studies):
        with open_executor(partial(task_at, study, examples=examples), device="cpu") as executor:
            results = sweep(study, executor, folder / f"{number}.sqlite", examples=examples)
        cells += len(results.records)
        for curve in results.curves:
            assert curve.optimum is not None
            best[study.model.title, curve.size, curve.seed] = study.search.rates.index(curve.optimum.rate)
    return Ran("depthlr, adaptive sweep", cells, time.perf_counter() - start, best)


def timed(run: Callable[[Path], Ran]) -> list[Ran]:
    """What it did, in a fresh folder; nothing where its package is missing."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = run(Path(folder))
        except ModuleNotFoundError as error:
            print(f"a peer is left out: {error}", flush=True)
            return []
    print(f"{found.method}: {found.cells} cells in {found.seconds:.1f} s", flush=True)
    return [found]


def compare(rounds: list[list[Ran]], search: Search) -> None:
    """The optima one by one, then the table: of each method the fastest round."""
    true = rounds[0][0].best
    swept = rounds[0][-1]
    for (model, size, seed), index in true.items():
        steps = swept.best[model, size, seed] - index
        verdict = f"off by {steps:+d} grid steps" if steps else "the same"
        print(f"{model}, size {size}, seed {seed}: plain loop {search.rates[index]:.3g}, depthlr {verdict}")
    whole = len(true) * search.points
    best = [min(column, key=lambda one: one.full) for column in zip(*rounds, strict=True)]
    print("\n| method | cells run | seconds | speed-up | optima within a grid step |\n|---|---|---|---|---|")
    for column, one in enumerate(best):
        cells = f"{one.cells} of {whole}" if one.every > 1 else str(one.cells)
        took = f"{one.full:.0f}" + (f" (scaled up from {one.seconds:.0f})" if one.every > 1 else "")
        found = rounds[0][column]
        near = sum(abs(found.best[place] - index) <= 1 for place, index in true.items())
        agree = "-" if found.every > 1 else f"{near} of {len(true)}"
        print(f"| {one.method} | {cells} | {took} | {best[0].full / one.full:.1f} | {agree} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=1, metavar="K", help="run every K-th rate, and scale up [1]")
    parser.add_argument("--rounds", type=int, default=1, help="time everything so often; the fastest counts [1]")
    parser.add_argument("--threads", type=int, help="of the plain loop and Optuna [as torch has it: one a core]")
    parser.add_argument("--sizes", type=int, nargs="+", default=[3, 8])
    parser.add_argument("--points", type=int, default=80)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    search = Search(points=options.points, seeds=tuple(range(options.seeds)))
    budget = Training(steps=options.steps, batch=64)
    studies = [
        Study(spec, Models(spec, vary, tuple(options.sizes)), budget, search=search) for spec, vary in FAMILIES.items()
    ]
    examples = load("digits")
    tasks = {(study.model.title, size): task_at(study, size, examples) for study in studies for size in options.sizes}
    cores = len(os.sched_getaffinity(0))
    print(
        f"{' and '.join(FAMILIES)}, sizes {options.sizes}, {options.seeds} seeds, {options.points} rates "
        f"{search.low:g} to {search.high:g}, {options.steps} steps, digits, batch 64; {cores} cores, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}",
        flush=True,
    )
    for (_, size), task in tasks.items():  # what torch loads once is no method's cost
        loss_of(task, size, 0, search.low)
    rounds = [
        [
            *timed(lambda folder: plain(tasks, search, every)),  # noqa: B023 (called at once)
            *timed(lambda folder: optuna_grid(tasks, search, options.sample)),
            *timed(lambda folder: ray_grid(tasks, search, options.sample, folder, cores)),
            *timed(lambda folder: depthlr_sweep(studies, folder)),
        ]
        for every in (1, *[options.sample] * (options.rounds - 1))
    ]
    compare(rounds, search)
