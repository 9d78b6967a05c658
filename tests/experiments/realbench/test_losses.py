"""Regret, and methods without a source, on tables whose answer is known."""

from __future__ import annotations

import math
from itertools import chain
from pathlib import Path
from statistics import median

import pytest
from tests.experiments.realbench.tiny import DAMPED, DEPTHS, write_facts, write_rows, write_sweep

from depthlr.law.rules import CONSTANT_EXPONENT
from depthlr.transfer.suggest import SUGGESTION_EVIDENCE
from experiments.realbench.chosen_rates import (
    CONSTANT,
    COPY,
    LIBRARY,
    TORCH,
    TUNED,
    compared_sizes,
    decades_of_rules,
    default_rates,
    rate_at,
    rates_without_source,
    regret_cells,
    suggested_cells,
)
from experiments.realbench.kept import COLUMNS, read_rows
from experiments.realbench.losses import (
    DIVERGED,
    interval_held,
    no_source_table,
    regret_of,
    regret_table,
    without_source,
)
from experiments.realbench.measured import SUGGEST
from experiments.realbench.plan import names
from experiments.realbench.recipes import recipe_named
from experiments.realbench.scores import read_tuned
from experiments.realbench.tuning_free import PRODIGY, SCHEDULE_FREE

NAME = "cct-adamw-cosine"
RESULTS = Path(__file__).parents[3] / "results" / "realbench"
SUGGESTED = {SUGGEST: 10**-3.1, "pytorch-lr-finder": 10**-2.0, "lightning": None}


def valley(rate: float, best: float) -> float:
    return math.exp(DAMPED * (math.log10(rate) - best) ** 2)


def write_regret(tables, name, best, seed_noise=0.0, diverged=()):
    """Runs whose losses are those of the valleys that were swept."""
    recipe = recipe_named(name)
    rows = []
    for cell in regret_cells(recipe, tables):
        loss = valley(cell.rate, best[cell.size]) * (1 + seed_noise * (1 if cell.seed else -1) * (cell.rate > 10**-3))
        rows.append({"size": cell.size, "seed": cell.seed, "rate": repr(cell.rate), "validation": loss})
        if cell.size in diverged and rows[-1]["rate"] == repr(rate_at(best[2])):
            rows[-1]["validation"] = ""
    path = tables / "regret" / f"{name}.csv"
    write_rows(path, rows, COLUMNS)
    write_facts(path, recipe.study.digest, len(rows))


def falling(exponent: float) -> dict[int, float]:
    return {size: -3 + exponent * math.log10(DEPTHS[size] / 6) for size in (2, 4, 8, 16)}


def test_regret_is_the_loss_at_a_rules_rate_over_that_at_the_tuned_one(tmp_path):
    best = falling(-0.5)
    write_sweep(tmp_path, NAME, best)
    write_regret(tmp_path, NAME, best)
    found = regret_of(recipe_named(NAME), read_tuned(tmp_path / f"{NAME}.csv"), tmp_path)
    for place, size in enumerate((4, 8, 16)):
        doubled = math.log10(DEPTHS[size] / 6)
        assert found.by_rule[COPY][place] == pytest.approx(math.exp(DAMPED * (0.5 * doubled) ** 2) - 1, rel=1e-5)
        off = (0.5 + CONSTANT_EXPONENT) * doubled
        assert found.by_rule[CONSTANT][place] == pytest.approx(math.exp(DAMPED * off**2) - 1, rel=1e-4)
    assert found.floor == pytest.approx(0, abs=1e-9)


def test_seeds_that_disagree_raise_the_floor_and_a_diverged_run_counts(tmp_path):
    best = falling(0.0)
    write_sweep(tmp_path, NAME, best)
    noisy = {size: value + 0.01 for size, value in best.items()}
    write_regret(tmp_path, NAME, noisy, seed_noise=0.02)
    tuned = read_tuned(tmp_path / f"{NAME}.csv")
    assert regret_of(recipe_named(NAME), tuned, tmp_path).floor == 0  # seeds disagree at every rate alike: paired
    best = falling(-0.5)
    write_sweep(tmp_path, NAME, best)
    write_regret(tmp_path, NAME, best, seed_noise=0.02, diverged=(16,))
    found = regret_of(recipe_named(NAME), read_tuned(tmp_path / f"{NAME}.csv"), tmp_path)
    assert found.by_rule[COPY][2] == DIVERGED
    assert found.by_rule[CONSTANT][2] < DIVERGED


def diverge_at_the_tuned_rate(tables, name, size, *seeds):
    """Empty the losses of these runs."""
    path = tables / "regret" / f"{name}.csv"
    rate = rate_at(read_tuned(tables / f"{name}.csv").decades[size])
    rows = [dict(row) for row in read_rows(path).values()]
    for row in rows:
        if int(row["size"]) == size and int(row["seed"]) in seeds and float(row["rate"]) == rate:
            row["validation"] = ""
    write_rows(path, rows, COLUMNS)


def test_runs_that_diverged_at_the_tuned_rate_are_left_out_for_every_rule(tmp_path):
    best = falling(-0.5)
    write_sweep(tmp_path, NAME, best)
    write_regret(tmp_path, NAME, best)
    tuned = read_tuned(tmp_path / f"{NAME}.csv")
    whole = regret_of(recipe_named(NAME), tuned, tmp_path)
    diverge_at_the_tuned_rate(tmp_path, NAME, 8, 1)
    found = regret_of(recipe_named(NAME), tuned, tmp_path)
    assert found.left_out == 1
    for rule in (COPY, CONSTANT):
        assert found.by_rule[rule] == pytest.approx(whole.by_rule[rule])  # the other seed has the same valley
    diverge_at_the_tuned_rate(tmp_path, NAME, 8, 0, 1)
    found = regret_of(recipe_named(NAME), tuned, tmp_path)
    assert found.left_out == 2
    for rule in (COPY, CONSTANT):
        assert found.by_rule[rule] == pytest.approx([whole.by_rule[rule][0], whole.by_rule[rule][2]])


def write_judged_half(tables, exponents):
    """All judged recipes with regrets of their valleys; each has its own exponent."""
    for name, exponent in zip(names("judged"), exponents, strict=True):
        best = dict(zip(recipe_named(name).study.model.sizes, falling(exponent).values(), strict=True))
        write_sweep(tables, name, best, depths=dict(zip(best, (6, 10, 18, 34), strict=True)))
        write_regret(tables, name, best)


def test_the_regret_table_ends_with_the_median_of_its_rows(tmp_path):
    write_judged_half(tmp_path, [-0.2, -0.2, -0.2, -0.2, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    found = [
        regret_of(recipe_named(name), read_tuned(tmp_path / f"{name}.csv"), tmp_path).by_rule[CONSTANT]
        for name in names("judged")
    ]
    by_recipe = median(median(values) for values in found)
    transfers = [value for values in found for value in values]
    assert f"{by_recipe:+.2%}" != f"{median(transfers):+.2%}"
    text = regret_table(tmp_path)
    total = next(line for line in text.splitlines() if line.startswith("| median of 10 |"))
    assert total.split(" | ")[-1] == f"{by_recipe:+.2%} |"
    assert f"- {CONSTANT}: median over transfers {median(transfers):+.2%}, 90% of transfers at most" in text


@pytest.mark.parametrize(
    ("last", "median_met", "most_met", "within"),
    [
        ([-0.2], "met", "met", 30),
        ([0.0, -0.1], "met", "met", 28),
        ([0.4] * 3, "met", "not met", 21),
        ([-0.1] * 10, "not met", "met", 30),
    ],
)
def test_regret_says_whether_its_goals_are_met(tmp_path, last, median_met, most_met, within):
    write_judged_half(tmp_path, [-0.2] * (10 - len(last)) + last)
    text = regret_table(tmp_path)
    wanted = f"Goals: median at most 0.5%: {median_met}; 90% of transfers at most 2%: {most_met} ({within} of 30)."
    assert wanted in text
    assert text.count("Goals:") == 1  # of the shipped rule


def test_the_regret_table_says_what_it_leaves_out(tmp_path):
    write_judged_half(tmp_path, [-0.3] * 10)
    assert "left out" not in regret_table(tmp_path)
    before = regret_table(tmp_path).splitlines()
    diverge_at_the_tuned_rate(tmp_path, NAME, 4, 0, 1)
    for size in (4, 8, 16):
        diverge_at_the_tuned_rate(tmp_path, "bert-adamw-linear", size, 0, 1)
    text = regret_table(tmp_path)
    assert "Runs at the tuned rate that diverged: 8. Their sizes and seeds are left out." in text
    assert "| bert-adamw-linear | - | - | - |" in text
    assert "| median of 9 |" in text
    assert "nan" not in text
    assert len(before) + 1 == len(text.splitlines())


def test_regret_trains_every_rule_at_the_larger_sizes(tmp_path):
    write_sweep(tmp_path, NAME, falling(-0.5))
    cells = regret_cells(recipe_named(NAME), tmp_path)
    assert len(cells) == len(set(cells)) == 3 * 3 * 2
    tuned = read_tuned(tmp_path / f"{NAME}.csv")
    assert decades_of_rules(tuned, 16)[COPY] == tuned.decades[2]
    assert decades_of_rules(tuned, 16)[TUNED] == tuned.decades[16]
    assert {cell.size for cell in cells} == {4, 8, 16}


def test_the_regret_table_waits_for_the_whole_judged_half(tmp_path):
    for name in names("judged"):
        recipe = recipe_named(name)
        best = dict(zip(recipe.study.model.sizes, falling(-0.3).values(), strict=True))
        depths = dict(zip(best, (6, 10, 18, 34), strict=True))
        write_sweep(tmp_path, name, best, depths=depths)
        assert regret_table(tmp_path) == ""
        if name != NAME:
            rows = [
                {
                    "size": cell.size,
                    "seed": cell.seed,
                    "rate": repr(cell.rate),
                    "validation": valley(cell.rate, best[cell.size]),
                }
                for cell in regret_cells(recipe, tmp_path)
            ]
            write_rows(tmp_path / "regret" / f"{name}.csv", rows, COLUMNS)
            write_facts(tmp_path / "regret" / f"{name}.csv", recipe.study.digest, len(rows))
    assert regret_table(tmp_path) == ""
    write_regret(tmp_path, NAME, falling(-0.3))
    text = regret_table(tmp_path)
    assert text.count("\n| ") == 12  # below the first line: the rule, ten recipes, the median
    assert "constant exponent loses" in text
    assert ": surely." in text


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("gpt2-adamw-cosine", 5e-5),
        ("vit-adamw-cosine", 0.1 * math.sqrt(0.5)),
        ("resnet-momentum-cosine", 0.05),
        (NAME, None),
        ("spoken-adamw-mixup", None),
    ],
)
def test_default_rates_are_those_of_the_programs(name, rate):
    assert default_rates(recipe_named(name)).get(LIBRARY) == (None if rate is None else pytest.approx(rate))
    assert default_rates(recipe_named(name))[TORCH] == 1e-3


def write_suggestions(tables, name, best, refused=()):
    """Rates that do not depend on the size, but for methods and sizes that are refused one."""
    recipe = recipe_named(name)
    rows = []
    for size in recipe.study.model.sizes:
        for method, rate in SUGGESTED.items():
            rate = None if (method, size) in refused else rate
            for seed in (0,) if method == SUGGEST else (0, 1, 2):
                factor = (1.0, 0.5, 3.0)[seed]  # the median over seeds is the first
                row = {"size": size, "method": method, "seed": seed, "rate": rate and rate * factor}
                ends = {"low": rate / 2, "high": rate * 2} if method == SUGGEST and rate else {}
                rows.append(row | ends)
    path = tables / "suggestions" / f"{name}.csv"
    write_rows(path, rows, ("size", "method", "seed", "rate", "low", "high", "seconds"))
    write_facts(path, recipe.study.digest, len(rows))
    trained = [
        {
            "size": cell.size,
            "seed": cell.seed,
            "rate": repr(cell.rate),
            "validation": valley(cell.rate, best[cell.size]),
        }
        for cell in suggested_cells(recipe, tables)
    ]
    write_rows(tables / "suggested" / f"{name}.csv", trained, COLUMNS)
    write_facts(tables / "suggested" / f"{name}.csv", recipe.study.digest, len(trained))
    free = [
        {"size": size, "method": method, "seed": 0, "validation": loss}
        for size in compared_sizes(recipe)
        for method, loss in ((PRODIGY, 1.05), (SCHEDULE_FREE, ""))
    ]
    path = tables / "tuning-free" / f"{name}.csv"
    write_rows(path, free, ("size", "method", "seed", "validation", "accuracy", "train_mean", "seconds"))
    write_facts(path, recipe.study.digest, len(free))


def test_methods_without_a_source_are_compared_in_rate_and_in_loss(tmp_path):
    best = falling(0.0)
    write_sweep(tmp_path, NAME, best)
    write_suggestions(tmp_path, NAME, best)
    recipe = recipe_named(NAME)
    rates = rates_without_source(recipe, tmp_path)
    assert rates[SUGGEST] == pytest.approx(dict.fromkeys((2, 4, 8, 16), 10**-3.1))
    assert rates["pytorch-lr-finder"][2] == pytest.approx(10**-2.0)
    assert rates["lightning"] == {}
    assert {cell.size for cell in suggested_cells(recipe, tmp_path)} == {2, 8}
    found = without_source([recipe], tmp_path)
    assert found[SUGGEST].errors[NAME] == pytest.approx([0.1] * 4)
    assert found[SUGGEST].regrets[NAME] == pytest.approx(dict.fromkeys((2, 8), math.exp(DAMPED * 0.01) - 1))
    assert found["pytorch-lr-finder"].errors[NAME] == pytest.approx([1.0] * 4)
    assert found["lightning"].errors[NAME] == []
    assert found[TORCH].errors[NAME] == pytest.approx([0.0] * 4)
    assert found[PRODIGY].regrets[NAME] == pytest.approx({2: 0.05, 8: 0.05})
    assert found[SCHEDULE_FREE].regrets[NAME] == {2: DIVERGED, 8: DIVERGED}
    assert LIBRARY not in found


def test_the_table_of_methods_reads_the_design_half_until_the_other_is_finished(tmp_path):
    for name in names("design"):
        sizes = recipe_named(name).study.model.sizes
        best = dict.fromkeys(sizes, -3.0)
        write_sweep(tmp_path, name, best)
        assert no_source_table(tmp_path) == ""
        write_suggestions(tmp_path, name, best)
    runs = tmp_path / "suggested" / f"{name}.json"
    finished = runs.read_text()
    runs.write_text(finished.replace('"complete": true', '"complete": false'))
    text = no_source_table(tmp_path)
    assert f"| {SUGGEST} | 24 of 24 | 0.10 (0.10) | - | - |" in text
    assert "Prodigy" not in text
    assert "Regrets wait" in text
    runs.write_text(finished)
    text = no_source_table(tmp_path)
    assert f"| {SUGGEST} | 24 of 24 | 0.10 (0.10) | +3.0% | +3.0% |" in text
    assert "Regrets wait" not in text
    assert "| lightning | 0 of 24 | - | - | - |" in text
    assert "| Prodigy | - | - | +5.0% | +5.0% |" in text
    assert f"{SUGGEST} loses +2.0% less than Prodigy (+2.0% to +2.0%, 6 recipes): surely." in text
    assert "contains 24 of 24 tuned rates" in text


def test_methods_are_compared_on_the_models_to_which_both_give_a_rate(tmp_path):
    finder = "pytorch-lr-finder"
    for name in names("design"):
        sizes = recipe_named(name).study.model.sizes
        small = sizes[0]  # where the suggested rate is the best one, and far off elsewhere
        best = {size: -3.1 if size == small else -2.0 for size in sizes}
        write_sweep(tmp_path, name, best)
        write_suggestions(tmp_path, name, best, refused={(finder, small)})
    text = no_source_table(tmp_path)
    lost = DIVERGED  # at the third size, where the finder's rate is the best one
    assert f"| {finder} | 18 of 24 |" in text
    assert f"{SUGGEST} loses {-lost:+.1%} less than {finder} ({-lost:+.1%} to {-lost:+.1%}, 6 recipes)" in text


def test_a_method_without_a_rate_where_models_are_trained_still_has_errors(tmp_path):
    for name in names("design"):
        sizes = recipe_named(name).study.model.sizes
        best = dict.fromkeys(sizes, -3.0)
        write_sweep(tmp_path, name, best)
        write_suggestions(tmp_path, name, best, refused={(SUGGEST, size) for size in sizes[::2]})
    text = no_source_table(tmp_path)
    assert f"| {SUGGEST} | 12 of 24 | 0.10 (0.10) | - | - |" in text
    assert f"{SUGGEST} loses" not in text
    assert f"| {PRODIGY} | - | - | +5.0% | +5.0% |" in text


def test_the_evidence_of_a_suggestion_is_that_of_the_design_half():
    recipes = [recipe_named(name) for name in names("design")]
    errors = [*chain(*without_source(recipes, RESULTS, trained=False)[SUGGEST].errors.values())]
    held, asked = interval_held(recipes, RESULTS)
    assert f"On {asked} models of six recipes" in SUGGESTION_EVIDENCE
    assert f"median error was {median(errors):.2f} decades, the worst {max(errors):.2f}" in SUGGESTION_EVIDENCE
    assert f"contained {held} tuned rates" in SUGGESTION_EVIDENCE


def test_the_page_says_where_suggestions_err_most():
    page = (RESULTS.parents[1] / "docs" / "realbench.md").read_text("utf-8")
    gpt, *others = (recipe_named(name) for name in names("design"))
    errors = without_source(others, RESULTS, trained=False)[SUGGEST].errors.values()
    assert f"On the other five recipes its worst error is {max(chain(*errors)):.2f}." in page
    tuned = read_tuned(RESULTS / f"{gpt.name}.csv")
    rates = rates_without_source(gpt, RESULTS)[SUGGEST]
    ends = min(rates), max(rates)
    depths = math.log10(tuned.depths[ends[1]] / tuned.depths[ends[0]])
    falls = [math.log10(rates[ends[1]] / rates[ends[0]]), tuned.decades[ends[1]] - tuned.decades[ends[0]]]
    suggested, found = (f"depth^({fall / depths:.1f})" for fall in falls)
    assert f"its suggestions fall as {suggested}, and the tuned rates as {found}" in page
