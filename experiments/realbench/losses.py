"""What a rate costs in validation loss: regret of carried rates, and of methods that need no source.

Regret is the loss of a run over that of the run at the tuned rate, minus one; both have the same seed, so they begin
with the same weights and see the same batches. The floor of a regret is one standard error of its mean over seeds: the
standard deviation of a seed's regret, pooled over the recipe's sizes and rules, over the root of the number of seeds.
A run at a rule's rate that diverged has the regret `DIVERGED`. Where the run at the tuned rate diverged there is no
regret: that size and seed is left out for every rule, and the table says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np

from depthlr.training.cell import Cell
from experiments.pages import markdown_table
from experiments.realbench.chosen_rates import (
    CONSTANT,
    COPY,
    TUNED,
    compared_sizes,
    decades_of_rules,
    rate_at,
    rates_without_source,
)
from experiments.realbench.kept import is_finished, read_rows
from experiments.realbench.measured import SUGGEST, SUGGESTIONS
from experiments.realbench.plan import is_judged_half_finished, names
from experiments.realbench.recipes import RealRecipe, recipe_named
from experiments.realbench.scores import Tuned, gain, read_tuned
from experiments.realbench.tuning_free import PRODIGY, SCHEDULE_FREE, TUNING_FREE

MOST = 0.9  # the quantile beside the median
DIVERGED = 10.0  # the regret of a run that diverged
MEDIAN_GOAL, MOST_GOAL = 0.005, 0.02  # of the shipped rule: the median regret, and that of the share `MOST`
SHARE = "80 % interval"


@dataclass(frozen=True)
class Regret:
    """A recipe's regrets by rule, one for every larger size, and the floor of each.

    Args:
        name: the recipe.
        by_rule: the mean over seeds at each larger size, small sizes first; sizes without a tuned run are left out.
        floor: one standard error of such a mean; nan if it is unknown.
        left_out: runs at the tuned rate that diverged.
    """

    name: str
    by_rule: Mapping[str, Sequence[float]]
    floor: float
    left_out: int = 0


def regret_of(recipe: RealRecipe, tuned: Tuned, results: Path) -> Regret:
    """From the runs at the rules' rates."""
    rows = read_rows(results / "regret" / f"{recipe.name}.csv")
    by_rule: dict[str, list[float]] = {COPY: [], CONSTANT: []}
    variances = []
    left_out = 0
    seeds = recipe.study.search.seeds
    for size in sorted(tuned.decades)[1:]:
        rates = {rule: rate_at(decades) for rule, decades in decades_of_rules(tuned, size).items()}
        losses = {
            rule: [_loss(rows[Cell(size, seed, rate)]["validation"]) for seed in seeds] for rule, rate in rates.items()
        }
        finite = [place for place, best in enumerate(losses[TUNED]) if math.isfinite(best)]
        left_out += len(seeds) - len(finite)
        for rule, found in by_rule.items() if finite else ():
            regrets = [regret(losses[rule][place], losses[TUNED][place]) for place in finite]
            found.append(fmean(regrets))
            if len(regrets) > 1 and max(regrets) < DIVERGED:
                variances.append(float(np.var(regrets, ddof=1)))
    floor = math.sqrt(fmean(variances) / len(seeds)) if variances else math.nan
    return Regret(recipe.name, by_rule, floor, left_out)


def regret(loss: float, best: float) -> float:
    """How much larger a loss is than the best one, as a share of it."""
    return min(loss / best - 1, DIVERGED)


def regret_table(results: Path) -> str:
    """The judged recipes: median and worst regret of each rule, and the gain of the shipped one over copying."""
    judged = names("judged")
    if not is_judged_half_finished(results):
        return ""
    if not all(is_finished(results / "regret" / f"{name}.csv") for name in judged):
        return ""
    found = [regret_of(recipe_named(name), read_tuned(results / f"{name}.csv"), results) for name in judged]
    answered = [one for one in found if one.by_rule[CONSTANT]]
    rows = []
    for one in found:
        cells = [f"{median(values):+.2%} ({max(values):+.2%})" if values else "-" for values in one.by_rule.values()]
        rows.append([one.name, f"{one.floor:.2%}" if math.isfinite(one.floor) else "-", *cells])
    totals = [f"{median(median(one.by_rule[rule]) for one in answered):+.2%}" for rule in (COPY, CONSTANT)]
    floors = [one.floor for one in found if math.isfinite(one.floor)]
    rows.append([f"median of {len(answered)}", f"{median(floors):.2%}" if floors else "-", *totals])
    lines = [regret_line(rule, [value for one in found for value in one.by_rule[rule]]) for rule in (COPY, CONSTANT)]
    copied, shipped = ({one.name: one.by_rule[rule] for one in answered} for rule in (COPY, CONSTANT))
    middle, low, high = gain(copied, shipped)
    sure = "surely" if low > 0 else "not surely"
    lines.append(f"- {CONSTANT} loses {middle:+.2%} less than copy ({low:+.2%} to {high:+.2%}): {sure}.")
    if left_out := sum(one.left_out for one in found):
        lines.append(f"- Runs at the tuned rate that diverged: {left_out}. Their sizes and seeds are left out.")
    head = ("recipe", "floor", f"{COPY}: median (worst)", f"{CONSTANT}: median (worst)")
    return markdown_table(head, rows) + "\n\n" + "\n".join(lines) + "\n"


def regret_line(rule: str, values: Sequence[float]) -> str:
    """A rule's regrets over all transfers, in a sentence; the shipped rule's beside their goals."""
    middle, most = median(values), float(np.quantile(values, MOST))
    line = f"- {rule}: median over transfers {middle:+.2%}, {MOST:.0%} of transfers at most {most:+.2%}."
    if rule != CONSTANT:
        return line
    within = sum(value <= MOST_GOAL for value in values)
    goals = (
        f"median at most {MEDIAN_GOAL:.1%}: {_met(middle <= MEDIAN_GOAL)}; "
        f"{MOST:.0%} of transfers at most {MOST_GOAL:.0%}: {_met(within >= MOST * len(values))} "
        f"({within} of {len(values)})"
    )
    return f"{line} Goals: {goals}."


def _met(reached: bool) -> str:
    return "met" if reached else "not met"


# -- no source ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class WithoutSource:
    """One method on some recipes.

    Args:
        errors: distances in decades from the tuned rate, by recipe, over all sizes; none of methods without a rate.
        regrets: over the best swept loss of the same size and seed, by recipe and size.
        asked: how many models were asked for a rate.
    """

    errors: Mapping[str, Sequence[float]]
    regrets: Mapping[str, Mapping[int, float]]
    asked: int


def without_source(recipes: Sequence[RealRecipe], results: Path, *, trained: bool = True) -> dict[str, WithoutSource]:
    """Every method.

    Args:
        recipes: those whose sweeps may be read.
        results: where tables lie.
        trained: compare losses too, which takes runs at the suggested rates.
    """
    errors: dict[str, dict[str, list[float]]] = {}
    regrets: dict[str, dict[str, dict[int, float]]] = {}
    asked = sum(len(recipe.study.model.sizes) for recipe in recipes)
    for recipe in recipes:
        tuned = read_tuned(results / f"{recipe.name}.csv")
        suggestions = rates_without_source(recipe, results)
        for method, rates in suggestions.items():
            distances = [abs(math.log10(rate) - tuned.decades[size]) for size, rate in rates.items()]
            errors.setdefault(method, {})[recipe.name] = distances
        if not trained:
            continue
        seed = recipe.study.search.seeds[0]
        swept = read_rows(results / f"{recipe.name}.csv")
        runs = read_rows(results / "suggested" / f"{recipe.name}.csv")
        free = TUNING_FREE.read(results / "tuning-free" / f"{recipe.name}.csv")
        best = {size: _best(swept, size, seed) for size in compared_sizes(recipe)}
        for method, rates in suggestions.items():
            for size in compared_sizes(recipe):
                if size in rates:
                    row = runs[Cell(size, seed, rate_at(math.log10(rates[size])))]
                    one = regret(_loss(row["validation"]), best[size])
                    regrets.setdefault(method, {}).setdefault(recipe.name, {})[size] = one
        for method in (PRODIGY, SCHEDULE_FREE):
            for size in compared_sizes(recipe):
                loss = _loss(free[str(size), method, str(seed)]["validation"])
                regrets.setdefault(method, {}).setdefault(recipe.name, {})[size] = regret(loss, best[size])
    methods = dict.fromkeys([*errors, *regrets])
    return {method: WithoutSource(errors.get(method, {}), regrets.get(method, {}), asked) for method in methods}


def no_source_table(results: Path) -> str:
    """Errors of every method on all recipes whose half may be read and is finished, and regrets if runs are trained."""
    halves = ["design", *(["judged"] if is_judged_half_finished(results) else [])]
    recipes = [recipe_named(name) for half in halves for name in names(half)]
    if not _finished("suggestions", recipes, results):
        return ""
    trained = _finished("suggested", recipes, results) and _finished("tuning-free", recipes, results)
    found = without_source(recipes, results, trained=trained)
    rows, lines = [], []
    for method, one in found.items():
        errors = [error for values in one.errors.values() for error in values]
        error = f"{median(errors):.2f} ({max(errors):.2f})" if errors else "-"
        suggested = f"{len(errors)} of {one.asked}" if one.errors else "-"
        regrets = [value for values in one.regrets.values() for value in values.values()]
        if regrets:
            most = float(np.quantile(regrets, MOST, method="higher"))
            costs = [f"{median(regrets):+.1%}", f"{most:+.1%}"]
        else:  # no model that is trained got a rate
            costs = ["-", "-"]
        rows.append([method, suggested, error, *costs])
        if method != SUGGEST:
            lines += less_lost(method, one, found[SUGGEST])
    held, asked = interval_held(recipes, results)
    lines.append(f"- The {SHARE} of {SUGGEST} contains {held} of {asked} tuned rates.")
    if not trained:
        lines.append(
            f"- Recipes: {', '.join(recipe.name for recipe in recipes)}. Regrets wait for runs at these rates."
        )
    head = ("method", "models with a rate", "error, decades: median (worst)", "regret, median", f"regret, {MOST:.0%}")
    return markdown_table(head, rows) + "\n\n" + "\n".join(lines) + "\n"


def _finished(folder: str, recipes: Sequence[RealRecipe], results: Path) -> bool:
    """Are all of these recipes' tables in a folder written to their end?"""
    return all(is_finished(results / folder / f"{recipe.name}.csv") for recipe in recipes)


def less_lost(method: str, one: WithoutSource, suggested: WithoutSource) -> list[str]:
    """How much less `suggest_rate` loses than another method, on the models to which both give a rate; one line."""
    worse: dict[str, list[float]] = {}
    better: dict[str, list[float]] = {}
    for name, values in suggested.regrets.items():
        others = one.regrets.get(name, {})
        if shared := [size for size in values if size in others]:
            worse[name] = [others[size] for size in shared]
            better[name] = [values[size] for size in shared]
    if not worse:
        return []
    middle, low, high = gain(worse, better)
    sure = "surely" if low > 0 else "not surely"
    interval = f"{low:+.1%} to {high:+.1%}, {len(worse)} recipes"
    return [f"- {SUGGEST} loses {middle:+.1%} less than {method} ({interval}): {sure}."]


def interval_held(recipes: Sequence[RealRecipe], results: Path) -> tuple[int, int]:
    """How many tuned rates lie in the interval of `suggest_rate`, and how many there are."""
    held, asked = 0, 0
    for recipe in recipes:
        tuned = read_tuned(results / f"{recipe.name}.csv")
        rows = SUGGESTIONS.read(results / "suggestions" / f"{recipe.name}.csv").values()
        for row in rows:
            if row["method"] == SUGGEST and row["rate"]:
                rate = 10 ** tuned.decades[int(row["size"])]
                held += float(row["low"]) <= rate <= float(row["high"])
                asked += 1
    return held, asked


def _best(rows: Mapping[Cell, Mapping[str, str]], size: int, seed: int) -> float:
    """The least loss that was swept at a size and seed."""
    return min(_loss(row["validation"]) for cell, row in rows.items() if (cell.size, cell.seed) == (size, seed))


def _loss(text: str) -> float:
    """Infinite where the run diverged."""
    return float(text) if text else math.inf
