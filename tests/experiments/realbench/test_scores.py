"""Errors of carried rates, against computations by hand."""

from __future__ import annotations

import csv
import json
import math
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, median

import pytest
from tests.experiments.realbench.tiny import write_facts, write_rows, write_sweep

from depthlr.errors import DepthlrError
from depthlr.law.carried_rate import RECIPE_SPREAD, STUDENT_QUANTILE, TUNING_NOISE, constant_error
from depthlr.law.rules import CONSTANT_EXPONENT
from depthlr.study.tune import CARRIED_BEST, CHECKS, CHECKS_RIGHT
from experiments.realbench.candidates import (
    CANDIDATES,
    candidates_table,
    errors,
    mean_of,
    norm_placement,
    of_fact,
    of_library,
    readings_table,
    signed_errors,
    table,
)
from experiments.realbench.checks import short_checks
from experiments.realbench.constant import fit_constant, held_without
from experiments.realbench.judge import measured_coverage, measured_errors, verdict
from experiments.realbench.kept import COLUMNS
from experiments.realbench.measured import MEASURED
from experiments.realbench.page import SECTIONS, UNFINISHED, design_half, filled
from experiments.realbench.picture import SHOWN, draw, middle_errors
from experiments.realbench.recipes import RECIPES
from experiments.realbench.scores import Curve, Tuned, gain, power, read_tuned

RESULTS = Path(__file__).parents[3] / "results" / "realbench"


def valley(best: float, rates: list[float]) -> Curve:
    return Curve(tuple(rates), tuple(math.exp(2 * (math.log10(rate) - best) ** 2) for rate in rates))


@pytest.mark.parametrize("best", [-2.0, -2.06, -1.9])
def test_the_vertex_of_a_parabola_is_found_between_rates(best: float) -> None:
    rates = [10 ** (-3 + step / 8) for step in range(17)]
    assert valley(best, rates).vertex == pytest.approx(best, abs=1e-9)


def test_a_curve_of_few_rates_has_its_best_one() -> None:
    assert Curve((0.01, 0.1), (2.0, 1.0)).vertex == -1
    assert Curve((0.01, 0.02, 0.03, 0.04), (1.0, 3.0, 3.1, 0.9)).vertex == pytest.approx(math.log10(0.03), abs=0.3)


def tuned(name: str, exponent: float) -> Tuned:
    depths = {1: 4, 2: 8, 4: 16}
    return Tuned(name, {size: exponent * math.log10(depth) for size, depth in depths.items()}, depths, 0.01, ())


def test_rules_err_by_what_their_exponent_misses(tmp_path) -> None:
    recipes = [tuned("a", -0.2), tuned("b", -0.4), tuned("c", -0.4)]
    twice, fourfold = math.log10(2), math.log10(4)
    assert errors("copy", recipes, tmp_path)["a"] == pytest.approx([0.2 * twice, 0.2 * fourfold])
    assert errors("constant exponent", recipes, tmp_path)["a"] == pytest.approx([0.2 * twice, 0.2 * fourfold])
    assert errors("constant exponent", recipes, tmp_path)["b"] == pytest.approx([0.1 * twice, 0.1 * fourfold], abs=0.01)
    assert errors("law", recipes, tmp_path)["c"] == pytest.approx([1.1 * twice, 1.1 * fourfold])
    assert errors("readings in warm-up", recipes, tmp_path) == {}
    assert recipes[0].exponent == pytest.approx(-0.2)
    assert signed_errors("law", recipes, tmp_path)["c"] == pytest.approx([-1.1 * twice, -1.1 * fourfold])
    assert signed_errors("copy", recipes, tmp_path)["a"] == pytest.approx([0.2 * twice, 0.2 * fourfold])


def test_an_exponent_per_fact_is_the_mean_of_those_that_share_it_and_the_constant() -> None:
    exponents = {
        "gpt2-adamw-cosine": -0.1,
        "llama-adamw-wsd": -0.3,
        "vit-adamw-cosine": -0.5,
        "llama-muon-cosine": -0.9,
    }
    recipe, *others = (tuned(name, exponent) for name, exponent in exponents.items())
    constant = fit_constant(others).exponent
    for fact, alike in ((lambda r: r.study.training.optimizer, [-0.3, -0.5]), (norm_placement, [-0.3, -0.5, -0.9])):
        changes = of_fact(fact)(recipe, others, RESULTS)
        expected = fmean([constant, *alike])
        assert changes == pytest.approx({2: expected * math.log10(2), 4: expected * math.log10(4)})
    alone = of_fact(lambda r: r.name)(recipe, others, RESULTS)
    assert alone == pytest.approx({2: constant * math.log10(2), 4: constant * math.log10(4)})


def test_a_weighted_mean_of_candidates_follows_the_one_that_errs_less_on_other_recipes() -> None:
    recipes = [tuned(name, -0.2) for name in "abc"]
    near, far = (of_library(power(exponent)) for exponent in (-0.3, -0.5))  # they err as 1 to 3
    mean = mean_of(near, far, weighted=True)(recipes[0], recipes[1:], RESULTS)
    assert mean == pytest.approx({size: (0.9 * -0.3 + 0.1 * -0.5) * math.log10(size) for size in (2, 4)})
    assert mean_of(near, far)(recipes[0], recipes[1:], RESULTS) == pytest.approx(
        {size: -0.4 * math.log10(size) for size in (2, 4)}
    )


def test_the_picture_shows_the_errors_of_the_table(tmp_path) -> None:
    recipes = design_half(RESULTS)
    *_, totals = table(recipes, RESULTS).splitlines()
    shown = [median(map(abs, middle_errors(rule, recipes, RESULTS))) for rule in SHOWN]
    assert totals.split(" | ")[-3:] == [*(f"{error:.2f}" for error in shown[:2]), f"{shown[2]:.2f} |"]
    draw(recipes, RESULTS, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_noisy_recipe_hardly_moves_the_constant_exponent() -> None:
    sure = [tuned(name, exponent) for name, exponent in zip("abcd", (-0.2, -0.22, -0.18, -0.2), strict=True)]
    noisy = replace(tuned("e", 0.6), standard_error=0.3)
    assert fit_constant(sure).exponent == pytest.approx(-0.2)
    assert abs(fit_constant([*sure, noisy]).exponent + 0.2) < 0.1


def test_the_interval_widens_with_the_spread_of_recipes_and_with_depth() -> None:
    alike, unlike = ([tuned("a", -0.2), tuned("b", b), tuned("c", c)] for b, c in ((-0.21, -0.19), (-0.6, 0.2)))
    assert fit_constant(unlike).half_width(4) > 2 * fit_constant(alike).half_width(4)
    assert fit_constant(unlike).half_width(4) > fit_constant(unlike).half_width(2)


def test_the_shipped_rule_is_the_fit_of_the_committed_design_half() -> None:
    design = [read_tuned(RESULTS / f"{recipe.name}.csv") for recipe in RECIPES if recipe.split == "design"]
    fit = fit_constant(design)
    committed = json.loads((RESULTS / "rule.json").read_text())
    assert committed == asdict(fit) | {"digest": fit.digest}
    assert fit.exponent == CONSTANT_EXPONENT
    assert (fit.spread, fit.noise, fit.quantile) == (RECIPE_SPREAD, TUNING_NOISE, STUDENT_QUANTILE)
    assert fit.half_width(34 / 6) == pytest.approx(constant_error(6, 34))


def test_the_product_says_how_often_a_short_check_was_right() -> None:
    design = [read_tuned(RESULTS / f"{recipe.name}.csv") for recipe in RECIPES if recipe.split == "design"]
    found = short_checks(design, RESULTS)
    assert len(found) == CHECKS
    assert sum(one.short == one.full for one in found) == CHECKS_RIGHT
    assert sum(one.full == 1 for one in found) == CARRIED_BEST


def test_the_verdict_names_every_rule_and_the_coverage() -> None:
    text = verdict([tuned(name, exponent) for name, exponent in (("a", -0.2), ("b", -0.1), ("c", -0.25))])
    assert "| a | -0.20 | 0.01 | " in text
    assert "less than copy" in text
    assert "less than law" in text
    assert "contains 6 of 6 tuned rates" in text
    assert "3 of 3, 95 % binomial interval 29% to 100%, which contains 80 %. Median half-width 0.17 decades." in text
    steep = verdict([tuned(name, -1.5 - 0.01 * place) for place, name in enumerate("abcde")])
    assert "0 of 5, 95 % binomial interval 0% to 52%, which does not contain 80 %." in steep


def write_measured(results: Path, recipe: Tuned, exponent: float, error: float | None) -> None:
    """Rates of persistent energy 1 that fall by this exponent."""
    rows = [
        {"size": size, "depth": depth, "decades": 5 + exponent * math.log10(depth), "standard_error": error}
        for size, depth in recipe.depths.items()
    ]
    path = results / "measured" / f"{recipe.name}.csv"
    write_rows(
        path, [row | {"noisy": False, "refused": None} for row in rows], (*MEASURED.keys, *MEASURED.values, "seconds")
    )
    write_facts(path, "any", len(rows))


def test_the_verdict_has_the_released_rule_once_it_is_measured_on_all(tmp_path) -> None:
    recipes = [tuned(name, -0.2) for name in "abc"]
    for recipe in recipes[:2]:
        write_measured(tmp_path, recipe, -0.7, None)
    assert "measured" not in verdict(recipes, results=tmp_path)
    write_measured(tmp_path, recipes[2], -0.7, None)
    twice, fourfold = math.log10(2), math.log10(4)
    # One initialization has no scatter, so the law has no part in it.
    assert measured_errors(recipes[0], tmp_path) == pytest.approx([0.5 * twice, 0.5 * fourfold])
    assert "errs by +0.23 less than measured (+0.23 to +0.23): surely." in verdict(recipes, results=tmp_path)
    held = measured_coverage(recipes, tmp_path)
    assert (held.held, held.transfers, held.recipes_held, held.recipes) == (6, 6, 3, 3)
    write_measured(tmp_path, recipes[2], -1.5, None)
    held = measured_coverage(recipes, tmp_path)
    assert (held.held, held.recipes_held) == (4, 2)


def test_a_recipe_that_the_released_rule_refuses_is_left_out_of_its_figures(tmp_path) -> None:
    recipes = [tuned(name, -0.2) for name in "abc"]
    for recipe in recipes:
        write_measured(tmp_path, recipe, -0.7, None)
    path = tmp_path / "measured" / "b.csv"
    path.write_text(path.read_text().replace(path.read_text().splitlines()[-1], "4,16,,,,the head starts at zero,"))
    text = verdict(recipes, results=tmp_path)
    assert "| median of 3 | | 0.01 | 0.09 | 0.00 | 0.59 | 0.23 of 2 |" in text
    assert "| b | -0.20 | 0.01 | 0.09 | 0.00 | 0.59 | - |" in text
    assert "less than measured (+0.23 to +0.23, the 2 recipes that it answers): surely." in text
    assert "measured: The 80 % interval contains 4 of 4 tuned rates." in text


def test_a_released_rule_that_refuses_every_recipe_has_no_column(tmp_path) -> None:
    recipes = [tuned(name, -0.2) for name in "abc"]
    for recipe in recipes:
        write_measured(tmp_path, recipe, -0.7, None)
        path = tmp_path / "measured" / f"{recipe.name}.csv"
        path.write_text(path.read_text().replace(path.read_text().splitlines()[-1], "4,16,,,,the head starts at zero,"))
    assert verdict(recipes, results=tmp_path) == verdict(recipes) + "- measured: it refuses a model of every recipe.\n"


def test_initializations_that_scatter_lean_on_the_law(tmp_path) -> None:
    recipe = tuned("a", -1.5)
    write_measured(tmp_path, recipe, -0.5, 0.01)
    sure = measured_errors(recipe, tmp_path)
    write_measured(tmp_path, recipe, -0.5, 1.0)
    assert max(measured_errors(recipe, tmp_path)) < 0.3 * max(sure)


def test_the_bootstrap_holds_a_gain_that_every_recipe_shows() -> None:
    worse, better = {name: [0.3] for name in "abcd"}, {name: [0.1] for name in "abcd"}
    assert gain(worse, better) == pytest.approx((0.2, 0.2, 0.2))
    found, low, high = gain({"a": [0.3], "b": [0.0], "c": [0.1]}, {"a": [0.1], "b": [0.2], "c": [0.0]})
    assert low < 0 < found < high


def test_a_table_reads_back_as_what_was_swept(tmp_path) -> None:
    path = tmp_path / "made.csv"
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for size, seed in ((2, 0), (2, 1), (16, 0), (16, 1)):
            for step in range(17):
                rate = 10 ** (-3 + step / 8)
                best = -2.0 - 0.1 * (size == 16) + 0.02 * seed
                loss = math.exp((math.log10(rate) - best) ** 2)
                row = {"size": size, "depth": 2 * size, "seed": seed, "rate": rate}
                writer.writerow(row | {"validation": loss, "validation_75": loss + (0.1 if size == 2 else -0.1)})
            writer.writerow({"size": size, "depth": 2 * size, "seed": seed, "rate": 1.0})  # diverged
    found = read_tuned(path)
    assert found.decades == pytest.approx({2: -1.99, 16: -2.09})
    assert found.standard_error == pytest.approx(0.01, rel=1e-3)
    assert found.rising == (16,)


def test_a_best_rate_at_the_end_of_what_ran_is_noted(tmp_path) -> None:
    rows = [
        {"size": size, "depth": depth, "seed": 0, "rate": rate, "validation": loss, "validation_75": loss and 5.0}
        for size, depth, losses in (
            (2, 6, (3.0, 1.0, 2.0, "")),
            (4, 10, (3.0, 2.0, 1.0, "")),
            (8, 18, (1.0, 2.0, 3.0, 4.0)),
        )
        for rate, loss in zip((0.1, 0.2, 0.4, 0.8), losses, strict=True)
    ]
    write_rows(tmp_path / "made.csv", rows, COLUMNS)
    assert read_tuned(tmp_path / "made.csv").edges == (4, 8)
    marked = replace(tuned("a", -0.2), edges=(2, 4), rising=(1,))
    assert "| a (rises at 1; edge at 2, 4) | -0.20 |" in verdict([marked, tuned("b", -0.2)])


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_committed_table_is_of_the_recipe_in_the_list(recipe) -> None:
    facts = RESULTS / f"{recipe.name}.json"
    if facts.is_file():
        assert json.loads(facts.read_text())["study"] == recipe.study.digest
        assert read_tuned(RESULTS / f"{recipe.name}.csv").depths.keys() <= set(recipe.study.model.sizes)


def test_the_page_is_made_from_the_committed_tables() -> None:
    place = RESULTS.parents[1] / "docs" / "realbench.md"
    page = place.read_text()
    assert filled(page, RESULTS, place) == page
    found = [read_tuned(RESULTS / f"{recipe.name}.csv") for recipe in RECIPES if recipe.split == "design"]
    shown = page.partition("<!-- candidates -->\n")[2].partition("<!-- /candidates -->")[0]
    assert shown == candidates_table(found, RESULTS)
    assert len(shown.splitlines()) == len(CANDIDATES) + 2
    assert page.partition("<!-- table -->\n")[2].partition("<!-- /table -->")[0] == table(found, RESULTS)
    assert page.partition("<!-- readings -->\n")[2].partition("<!-- /readings -->")[0] == readings_table(found, RESULTS)
    held, transfers = held_without(found)
    assert f"contains {held} of {transfers} tuned rates" in page


def test_a_part_of_the_page_without_tables_says_so_in_one_line(tmp_path) -> None:
    always = {"table", "candidates", "readings", "hypotheses", "plan"}
    text = "".join(f"<!-- {name} -->\nold\n<!-- /{name} -->\n" for name in SECTIONS)
    for place, recipe in enumerate(recipe for recipe in RECIPES if recipe.split == "design"):
        slope = -0.1 * place  # recipes whose exponents agree to the last bit have no weights
        write_sweep(tmp_path, recipe.name, {size: -3 + slope * math.log10(size) for size in recipe.study.model.sizes})
    shutil.copytree(RESULTS / "readings", tmp_path / "readings")
    for path in RESULTS.glob("*+steps120.*"):
        shutil.copy(path, tmp_path)
    made = filled(text, tmp_path, tmp_path / "page.md")
    for name in SECTIONS:
        part = made.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]
        assert (part == UNFINISHED) == (name not in always)
    with pytest.raises(DepthlrError, match="lacks the marks <!-- axes -->"):
        filled(text.replace("<!-- axes -->", ""), tmp_path, tmp_path / "page.md")


def test_the_printed_table_has_a_row_for_each_recipe(tmp_path) -> None:
    text = table([tuned("a", -0.2), tuned("b", -0.4), tuned("c", -0.4)], tmp_path)
    assert [line.split("|")[1].strip() for line in text.splitlines()[2:]] == ["a", "b", "c", "median of 3"]
