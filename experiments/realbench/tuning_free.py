"""Prodigy and schedule-free AdamW on RealBench's recipes: trained as their authors say, with nothing tuned.

Prodigy takes the recipe's schedule as a factor on its estimate. Schedule-free AdamW warms up as the recipe does and has
no decay; before it is evaluated, BatchNorm's statistics are taken anew at the average of the weights. Neither decays
weights, which is their default. Clipping, augmentation and label smoothing are the recipe's.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import torch
from torch import nn

from depthlr.data.examples import Examples
from depthlr.study.tasks import load_data, task_at
from depthlr.training.capturable import draw_start
from depthlr.training.device import autocast
from depthlr.training.task import HeldOut, Task, TrainingStep
from depthlr.training.training import factors_of
from experiments.realbench.chosen_rates import compared_sizes
from experiments.realbench.measuring import Measurements, Values
from experiments.realbench.oracle import placed
from experiments.realbench.parameter_free import Prodigy, ScheduleFreeAdamW
from experiments.realbench.recipes import RealRecipe

TUNING_FREE = Measurements(("size", "method", "seed"), ("validation", "accuracy", "train_mean"))
PRODIGY, SCHEDULE_FREE = "Prodigy", "schedule-free AdamW"
STATISTICS = 50  # batches that BatchNorm sees at the average of the weights


def write_tuning_free(recipe: RealRecipe, data: Path, table: Path, *, seconds: float | None, device: str) -> bool:
    """Train two sizes with each method; True when finished.

    Args:
        recipe: what is trained.
        data: the folder of the packed data.
        table: the table's file.
        seconds: begin no run after so long.
        device: where models are trained.
    """
    study = placed(recipe, data)
    examples, held_out = load_data(study)
    assert held_out is not None
    on_device, evaluated = examples.to(device), held_out.to(device)

    def measure(size: int, method: str, seed: int) -> Values:
        return train(task_at(study, size, examples), on_device, evaluated, method, seed, torch.device(device))

    seed = study.search.seeds[0]
    keys = [(size, method, seed) for size in compared_sizes(recipe) for method in (PRODIGY, SCHEDULE_FREE)]
    return TUNING_FREE.fill(table, study.digest, keys, measure, seconds=seconds)


def train(task: Task, examples: Examples, held_out: Examples, method: str, seed: int, device: torch.device) -> Values:
    """One run: losses on held-out data at its end and in training. They are unknown if it diverged."""
    model = task.build()
    start = draw_start(task, model, seed, device)
    model = model.to(device).train()
    training, steps = task.training, task.training.run_steps
    factors = factors_of(training.schedule, steps, training.warmup or 0.0, training.cooldown or 0.0)
    optimizer: Prodigy | ScheduleFreeAdamW
    if method == PRODIGY:
        optimizer = Prodigy(model.parameters())
    else:
        optimizer = ScheduleFreeAdamW(model.parameters(), warmup=round((training.warmup or 0.0) * steps))
    step = TrainingStep(task, model, examples, [optimizer], device)
    losses = []
    for place, factor in enumerate(factors):
        if isinstance(optimizer, Prodigy):
            optimizer.param_groups[0]["lr"] = factor
        losses.append(step(start.order[place], start.chances[place]))
    if isinstance(optimizer, ScheduleFreeAdamW):
        optimizer.average()
        _measure_statistics(task, model, examples, start.order, device)
    judge = HeldOut(task, held_out, device)
    judge.restart()
    for _ in range(judge.batches):
        judge.advance()
        judge.add_batch(model)
    found = judge.evaluation(steps)
    mean = float(torch.stack(losses).mean())
    if not torch.isfinite(torch.tensor([mean, found.loss])).all():
        return {"validation": None, "accuracy": None, "train_mean": None}
    return {"validation": found.loss, "accuracy": found.accuracy, "train_mean": mean}


@torch.no_grad()
def _measure_statistics(
    task: Task, model: nn.Module, examples: Examples, order: torch.Tensor, device: torch.device
) -> None:
    """BatchNorm's running statistics at these weights."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean
    for indices in islice(order, STATISTICS):
        with autocast(task.training.precision, device):
            model(examples.batch(indices)[0])
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
