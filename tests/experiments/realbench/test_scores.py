"""Errors of carried rates, against computations by hand."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

from experiments.realbench.oracle import COLUMNS
from experiments.realbench.recipes import RECIPES
from experiments.realbench.scores import Curve, Tuned, gain, read_tuned, rule_errors, table

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


def test_rules_err_by_what_their_exponent_misses() -> None:
    recipes = [tuned("a", -0.2), tuned("b", -0.4), tuned("c", -0.4)]
    twice, fourfold = math.log10(2), math.log10(4)
    assert rule_errors(recipes, "copy")["a"] == pytest.approx([0.2 * twice, 0.2 * fourfold])
    assert rule_errors(recipes, "constant exponent")["a"] == pytest.approx([0.2 * twice, 0.2 * fourfold])
    assert rule_errors(recipes, "constant exponent")["b"] == pytest.approx([0.1 * twice, 0.1 * fourfold])
    assert rule_errors(recipes, "law")["c"] == pytest.approx([1.1 * twice, 1.1 * fourfold])
    assert recipes[0].exponent == pytest.approx(-0.2)


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


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_committed_table_is_of_the_recipe_in_the_list(recipe) -> None:
    facts = RESULTS / f"{recipe.name}.json"
    if facts.is_file():
        assert json.loads(facts.read_text())["study"] == recipe.study.digest
        assert read_tuned(RESULTS / f"{recipe.name}.csv").depths.keys() <= set(recipe.study.model.sizes)


def test_the_page_shows_the_table_of_the_committed_results() -> None:
    page = (RESULTS.parents[1] / "docs" / "realbench.md").read_text()
    shown = page.partition("<!-- table -->\n")[2].partition("<!-- /table -->")[0]
    design = [recipe.name for recipe in RECIPES if recipe.split == "design"]
    finished = [name for name in design if (RESULTS / f"{name}.json").is_file()]
    assert shown == table([read_tuned(RESULTS / f"{name}.csv") for name in finished])


def test_the_printed_table_has_a_row_for_each_recipe() -> None:
    text = table([tuned("a", -0.2), tuned("b", -0.4)])
    assert [line.split("|")[1].strip() for line in text.splitlines()[2:]] == ["a", "b", "median of 2"]
