"""Runs at rates that rules choose, trained and not interpolated.

`REGRET`: every larger size of a judged recipe at the rates of copy and of the constant exponent (the shipped rule), and
at its own tuned rate, all on the sweep's seeds. `SUGGESTED`: models at the rates that methods without a source choose.
`HORIZON`: long runs around the rate that was tuned on shorter ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from depthlr.training.cell import Cell
from depthlr.transfer.rules import Constant
from experiments.range_tests import RANGE_TESTS
from experiments.realbench.measured import SUGGEST, SUGGESTIONS
from experiments.realbench.recipes import RealRecipe
from experiments.realbench.scores import Tuned, read_tuned

DIGITS = 9
COPY, CONSTANT, TUNED = "copy", "constant exponent", "tuned"
TORCH = "torch's default"
LIBRARY = "library's default"
TRAINER = 5e-5  # transformers.TrainingArguments.learning_rate
TIMM_BASE, TIMM_BATCH = 0.1, 256  # timm's train.py: lr_base and lr_base_size
OF_TRAINER, OF_TIMM = ("gpt2", "llama", "bert"), ("vit", "mixer", "convnext", "resnet")
OFFSETS = (-3, -1, 1, -5, 3, 5)  # in eighths of a decade, those that are most likely to be the best first


def decades_of_rules(recipe: Tuned, size: int) -> dict[str, float]:
    """log10 of the rates that regret is about, at one size."""
    source = recipe.decades[min(recipe.decades)]
    return {COPY: source, CONSTANT: source + recipe.changes(Constant())[size], TUNED: recipe.decades[size]}


def regret_cells(recipe: RealRecipe, tables: Path) -> list[Cell]:
    """What regret needs of one recipe whose sweep is finished."""
    tuned = read_tuned(tables / f"{recipe.name}.csv")
    larger = sorted(tuned.decades)[1:]
    seeds = recipe.study.search.seeds
    return [
        Cell(size, seed, rate_at(decades))
        for size in larger
        for seed in seeds
        for decades in decades_of_rules(tuned, size).values()
    ]


def default_rates(recipe: RealRecipe) -> dict[str, float]:
    """What a user gets who sets no rate: from torch's optimizer, and from the library's own training program.

    torch's SGD, AdamW and Muon have 1e-3. transformers' Trainer has 5e-5. timm's train.py takes 0.1 at a batch of 256,
    in proportion to the batch for SGD and to its root for adaptive optimizers.
    """
    found = {TORCH: 1e-3}
    training = recipe.study.training
    family = str(recipe.study.model.spec).partition(":")[2].partition("?")[0]
    if family in OF_TRAINER:
        found[LIBRARY] = TRAINER
    if family in OF_TIMM:
        ratio = training.batch / TIMM_BATCH
        found[LIBRARY] = TIMM_BASE * (ratio if training.optimizer == "momentum" else math.sqrt(ratio))
    return found


def rates_without_source(recipe: RealRecipe, tables: Path) -> dict[str, Mapping[int, float]]:
    """By method and size: the median over seeds of what a method suggests. A method that suggests nothing is absent."""
    rows = SUGGESTIONS.read(tables / "suggestions" / f"{recipe.name}.csv").values()
    found: dict[str, Mapping[int, float]] = {}
    for method in (SUGGEST, *RANGE_TESTS):
        by_size: dict[int, list[float]] = {}
        for row in rows:
            if row["method"] == method and row["rate"]:
                by_size.setdefault(int(row["size"]), []).append(float(row["rate"]))
        found[method] = {size: median(rates) for size, rates in by_size.items()}
    for method, rate in default_rates(recipe).items():
        found[method] = dict.fromkeys(recipe.study.model.sizes, rate)
    return found


def suggested_cells(recipe: RealRecipe, tables: Path) -> list[Cell]:
    """The smallest model and the third, one seed, at every method's rate."""
    wanted = compared_sizes(recipe)
    methods = rates_without_source(recipe, tables).values()
    return [
        Cell(size, recipe.study.search.seeds[0], rate_at(math.log10(rates[size])))
        for size in wanted
        for rates in methods
        if size in rates
    ]


def compared_sizes(recipe: RealRecipe) -> tuple[int, ...]:
    """The sizes at which methods without a source are trained: the largest would cost as much as all others."""
    return recipe.study.model.sizes[::2]


def long_cells(recipe: RealRecipe, shorter: Path) -> list[Cell]:
    """Rates around those that were tuned on shorter runs, a quarter of a decade apart; small sizes first."""
    tuned = read_tuned(shorter)
    sizes, seeds = recipe.study.model.sizes, recipe.study.search.seeds
    return [
        Cell(size, seed, rate_at(tuned.decades[size] + offset / 8))
        for size in sizes
        for offset in OFFSETS
        for seed in seeds
    ]


def rate_at(decades: float) -> float:
    """A rate with as many digits as a grid's, so that it is the same cell on every machine."""
    return float(f"{10**decades:.{DIGITS}g}")
