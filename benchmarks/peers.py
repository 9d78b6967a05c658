"""Against what people use instead: the plain loop over the grid, Optuna, Ray Tune, and depthlr's adaptive sweep.

    python -m benchmarks.peers                     every cell of every method, about a quarter of an hour on two cores
    python -m benchmarks.peers --sample 8          Optuna and Ray Tune run every 8th rate, and their time is scaled up
    pip install optuna "ray[tune]"                 the peers, if you have them not; a missing one is left out

One run, one machine, one answer: the same models, seeds, batches and grid of rates, the data in memory. The plain loop,
Optuna and Ray Tune call the very same function (`train_plainly`) once a cell, and their models are described before the
clock starts; depthlr's time has everything in it, from starting its processes to the last commit of its store.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from depthlr.data import load
from depthlr.study import Models, Search, Study, Training, sweep, task_at
from depthlr.study.record import record
from depthlr.training import Cell, Task, open_engine, train_plainly

FAMILIES = {"resnet?width=12": "blocks", "cnn?width=12": "layers"}
Place = tuple[str, int, int]  # model, size, seed
Tasks = dict[tuple[str, int], Task]  # by model and size


@dataclass(frozen=True)
class Ran:
    """What a method did: `best` is the index of the best rate, `setup` the seconds that do not grow with the cells."""

    method: str
    cells: int
    seconds: float
    setup: float = 0.0
    best: dict[Place, int] | None = None  # None where only a sample of the grid was run

    def whole(self, cells: int) -> float:
        """Seconds for so many cells, at the same cost a cell."""
        return self.setup + (self.seconds - self.setup) * cells / self.cells


def loss_of(task: Task, size: int, seed: int, rate: float) -> float:
    """One cell by the plain loop."""
    cell = Cell(size, seed, rate)
    return record(cell, train_plainly(task, cell), None).loss


def plain(tasks: Tasks, search: Search, every: int) -> Ran:
    best: dict[Place, int] = {}
    rates = search.rates[::every]
    start = time.perf_counter()
    for (model, size), task in tasks.items():
        for seed in search.seeds:
            losses = [loss_of(task, size, seed, rate) for rate in rates]
            best[model, size, seed] = losses.index(min(losses))
    seconds = time.perf_counter() - start
    return Ran("plain loop", len(best) * len(rates), seconds, best=best if every == 1 else None)


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
    return Ran(version, len(best) * len(rates), seconds, best=best if every == 1 else None)


def ray_grid(tasks: Tasks, search: Search, every: int, folder: Path, cores: int) -> Ran:
    """A trial a cell, a core a trial. Processes are kept from trial to trial, and nothing is logged, which helps Ray.

    Starting and stopping it is setup, so that a sample is not charged for it twice.
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
        began = time.perf_counter()
        found = tuner.fit()
        fitted = time.perf_counter() - began
    finally:
        ray.shutdown()
    seconds = time.perf_counter() - start
    assert not found.errors, found.errors[0]
    losses: dict[Place, dict[float, float]] = {}
    for trial in found:
        (model, size), seed = trial.config["task"], trial.config["seed"]
        losses.setdefault((model, size, seed), {})[trial.config["rate"]] = trial.metrics["loss"]
    best = {place: search.rates.index(min(curve, key=curve.__getitem__)) for place, curve in losses.items()}
    version = f"Ray Tune {ray.__version__}, grid_search, {cores} at a time"
    cells = sum(map(len, losses.values()))
    return Ran(version, cells, seconds, setup=seconds - fitted, best=best if every == 1 else None)


def _ray_trial(config: dict[str, Any], tasks: Tasks) -> dict[str, float]:
    torch.set_num_threads(1)
    model, size = config["task"]
    return {"loss": loss_of(tasks[model, size], size, config["seed"], config["rate"])}


def depthlr_sweep(studies: list[Study], kind: str, folder: Path) -> Ran:
    """`study.sweep` into a store on disk."""
    examples = load("digits")
    best: dict[Place, int] = {}
    cells = 0
    start = time.perf_counter()
    for number, study in enumerate(studies):
        own = replace(study, search=replace(study.search, kind=kind))
        with open_engine(partial(task_at, own, examples=examples), device="cpu") as open_runner:
            results = sweep(own, open_runner, folder / f"{kind}-{number}.sqlite", examples=examples)
        cells += len(results.records)
        for curve in results.curves:
            assert curve.optimum is not None
            best[own.model.spec, curve.size, curve.seed] = own.search.rates.index(curve.optimum.rate)
    return Ran(f"depthlr, {kind}", cells, time.perf_counter() - start, best=best)


def available(name: str, run: Callable[[], Ran]) -> list[Ran]:
    try:
        found = run()
    except ModuleNotFoundError as error:
        print(f"{name} is left out: {error}", flush=True)
        return []
    print(f"{found.method}: {found.cells} cells in {found.seconds:.1f} s", flush=True)
    return [found]


def compare(ran: list[Ran], whole: int, search: Search) -> None:
    """The optima one by one, then the table."""
    reference = ran[0]
    last = ran[-1].best or {}
    for (model, size, seed), index in (reference.best or {}).items():
        steps = last[model, size, seed] - index
        verdict = (
            "the same" if not steps else f"{steps:+d} grid steps" + ("" if abs(steps) == 1 else ", NOT within one")
        )
        print(f"{model}, size {size}, seed {seed}: plain {search.rates[index]:.3g}, {ran[-1].method} {verdict}")
    print("\n| method | cells run | seconds | speed-up | optima within a grid step |\n|---|---|---|---|---|")
    for one in ran:
        sampled = one.best is None
        seconds = one.whole(whole) if sampled else one.seconds
        agree = "-"
        if one is not reference and one.best and reference.best:
            near = sum(abs(one.best[place] - index) <= 1 for place, index in reference.best.items())
            agree = f"{near} of {len(reference.best)}"
        cells = f"{one.cells} of {whole}" if sampled else str(one.cells)
        took = f"{seconds:.0f}" + (f" (extrapolated from {one.seconds:.0f})" if sampled else "")
        print(f"| {one.method} | {cells} | {took} | {reference.whole(whole) / seconds:.2f} | {agree} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=1, metavar="K", help="Optuna and Ray Tune run every K-th rate")
    parser.add_argument("--sample-plain", type=int, default=1, metavar="K", help="so does the plain loop: no optima")
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
    tasks = {(study.model.spec, size): task_at(study, size, examples) for study in studies for size in options.sizes}
    whole = len(tasks) * options.seeds * options.points
    cores = len(os.sched_getaffinity(0))
    print(
        f"{' and '.join(FAMILIES)}, sizes {options.sizes}, {options.seeds} seeds, {options.points} rates "
        f"{search.low:g} to {search.high:g}: {whole} cells of {options.steps} steps, digits, batch 64; {cores} cores, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}",
        flush=True,
    )
    for (_, size), task in tasks.items():  # what torch loads once is no method's cost
        loss_of(task, size, 0, search.low)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        ran = [
            *available("The plain loop", lambda: plain(tasks, search, options.sample_plain)),
            *available("Optuna", lambda: optuna_grid(tasks, search, options.sample)),
            *available("Ray Tune", lambda: ray_grid(tasks, search, options.sample, folder, cores)),
            *(
                available("depthlr", lambda: depthlr_sweep(studies, "grid", folder))
                if options.sample_plain == 1
                else []
            ),
            *available("depthlr", lambda: depthlr_sweep(studies, "adaptive", folder)),
        ]
    compare(ran, whole, search)


if __name__ == "__main__":
    main()
