"""What is measured of a recipe's models at initialization, with no training run.

`MEASURED` are the rates of persistent energy 1, from which the rule `measured` carries. `SUGGESTIONS` are rates with no
source: `suggest_rate` and two range tests. Both use examples as they are, without augmentation. A model that cannot be
measured, such as one whose head starts at zero, has a row with the reason in place of a rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

import torch
from torch import Tensor, nn

from depthlr.data.examples import Examples
from depthlr.energy.batches import PERSISTENT_BATCHES, batches_for_seeds
from depthlr.energy.initializations import depth_on, draw_models
from depthlr.energy.persistent import persistent_energies, rate_over_draws
from depthlr.errors import DepthlrError
from depthlr.models.build import build
from depthlr.random_states import preserve_random_states
from depthlr.study.description import Study
from depthlr.study.tasks import load_data, task_at
from depthlr.training.task import Task
from depthlr.transfer.recipe import Recipe
from depthlr.transfer.suggest import suggest_rate
from experiments.range_tests import RANGE_TESTS
from experiments.realbench.measuring import Measurements, Values
from experiments.realbench.oracle import placed
from experiments.realbench.recipes import RealRecipe

MEASURED = Measurements(("size",), ("depth", "decades", "standard_error", "noisy", "refused"))
SUGGESTIONS = Measurements(("size", "method", "seed"), ("rate", "low", "high", "refused"))
SUGGEST, RANGE_SEEDS, SEEDS = "suggest_rate", (0, 1, 2), 4
PEAK = "warmup-cosine"  # of the schedules for which suggest_rate is calibrated, the one that warms up and decays


class Models:
    """A recipe's model of one size on a device, with its batches."""

    def __init__(self, study: Study, size: int, examples: Examples, device: str) -> None:
        self.study, self.size, self.examples, self.device = study, size, examples, torch.device(device)
        self.task: Task = task_at(study, size, examples)

    def draw(self) -> nn.Module:
        """A model whose weights its library draws anew."""
        return build(self.study.model.spec_at(self.size), input=self.examples.input)[0].to(self.device).train()

    def at(self, seed: int) -> nn.Module:
        """The model that runs of this seed begin with."""
        with preserve_random_states(seed, devices=[]):
            return self.draw()

    def optimizers(self, model: nn.Module) -> list[torch.optim.Optimizer]:
        """Those of the recipe."""
        return self.task.training.make_optimizers(model, 1.0)

    def batches(self, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """In the order in which a run of this seed sees them, and again."""
        for indices in cycle(self.task.order(seed)):
            yield self.examples.batch(indices.to(self.device))

    def recipe(self, batches: int) -> Recipe:
        """What the product's rules take."""
        source = self.batches(0)
        return Recipe(self.draw, [next(source) for _ in range(batches)], self.task.loss_fn, self.optimizers)


def write_measured(
    recipe: RealRecipe, data: Path, table: Path, *, seconds: float | None, device: str, batches: int | None = None
) -> bool:
    """Measure every size as the rule `measured` does; True when finished.

    Args:
        recipe: whose models are measured.
        data: the folder of the packed data.
        table: the table's file.
        seconds: begin no size after so long.
        device: where models are measured.
        batches: of one size; enough for every initialization by default.
    """
    study, examples = _loaded(recipe, data, device)

    def measure(size: int) -> Values:
        models = Models(study, size, examples, device)
        asked = models.recipe(batches or SEEDS * PERSISTENT_BATCHES)
        drawn = batches_for_seeds(asked.batches, SEEDS, None, 0)
        models_by_name = {"model": draw_models(models.draw, range(SEEDS))}
        values: Values = {"depth": depth_on(models.draw(), drawn.first).total, "refused": None}
        try:
            found = persistent_energies(models_by_name, drawn, asked.loss_fn, asked.optimizer, seed=0)
        except DepthlrError as error:
            return {**values, "decades": None, "standard_error": None, "noisy": None, "refused": str(error)}
        rate = rate_over_draws(found[0])
        return {
            **values,
            "decades": rate.decades,
            "standard_error": rate.standard_error,
            "noisy": rate.noisy,
        }

    return MEASURED.fill(table, study.digest, [(size,) for size in study.model.sizes], measure, seconds=seconds)


def write_suggestions(
    recipe: RealRecipe, data: Path, table: Path, *, seconds: float | None, device: str, batches: int | None = None
) -> bool:
    """Ask for a rate with no source at every size; True when finished. The arguments are those of `write_measured`."""
    study, examples = _loaded(recipe, data, device)
    models_at = partial(Models, study, examples=examples, device=device)

    def measure(size: int, method: str, seed: int) -> Values:
        models = models_at(size)
        if method == SUGGEST:
            asked = models.recipe(batches or SEEDS * PERSISTENT_BATCHES)
            try:
                found = suggest_rate(
                    models.draw, asked.batches, asked.loss_fn, asked.optimizer, schedule=PEAK, seeds=SEEDS
                )
            except DepthlrError as error:
                return {"rate": None, "low": None, "high": None, "refused": str(error)}
            return {"rate": found.rate, "low": found.low, "high": found.high, "refused": None}
        model = models.at(seed)
        rate = RANGE_TESTS[method](model, models.optimizers(model), models.batches(seed), models.task.loss_fn)
        return {"rate": rate, "low": None, "high": None, "refused": None}

    sizes = study.model.sizes
    keys = [(size, SUGGEST, 0) for size in sizes]
    keys += [(size, test, seed) for size in sizes for test in RANGE_TESTS for seed in RANGE_SEEDS]
    return SUGGESTIONS.fill(table, study.digest, keys, measure, seconds=seconds)


def _loaded(recipe: RealRecipe, data: Path, device: str) -> tuple[Study, Examples]:
    study = placed(recipe, data)
    return study, load_data(study)[0].to(device)
