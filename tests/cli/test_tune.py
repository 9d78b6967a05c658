"""`depthlr tune`: a rate with its interval from a recipe of two sizes; run again, it trains nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from depthlr.cli.demo import RECIPE as RECIPE_OF_DEMO
from depthlr.formatting import rate_text
from depthlr.study.description import read_study
from depthlr.study.results import read_results
from depthlr.study.tune import CARRIED_BEST, CHECKS, CHECKS_RIGHT

RECIPE = """
[model]
spec = "mlp?width=8"
vary = "layers"
sizes = [1, 3]

[training]
steps = 20
batch = 64
schedule = "warmup-cosine"

[search]
kind = "grid"
low = 0.01
high = 10
points = 7
seeds = 2
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


def test_tune_carries_the_tuned_rate_and_checks_it(run, recipe: Path) -> None:
    code, out, err = run("tune", str(recipe), "--verify", "--share", "0.5", "--workers", "1", "--json")
    assert code == 0, err
    found = json.loads(out)
    source = read_results(recipe.with_suffix(".sqlite"))
    assert found["source"]["rate"] == pytest.approx(source.tuned_rates[1])
    assert found["source"]["cells"] == len(source.records) == 14
    carried = found["carried"]
    assert carried["rule"] == "constant"
    assert carried["low"] < found["rate"] == carried["rate"] < carried["high"]
    assert found["check"]["steps"] == 10
    assert len(found["check"]["losses"]) == 3
    assert f"{found['check']['best']:.2e}" in {f"{float(rate):.2e}" for rate in found["check"]["losses"]}
    again = run("tune", str(recipe), "--verify", "--share", "0.5", "--workers", "1", "--json")
    assert again[1] == out


def test_a_rate_that_is_given_is_not_tuned(run, recipe: Path) -> None:
    code, out, err = run("tune", str(recipe), "--rate", "0.3", "--rule", "copy")
    assert code == 0
    assert "3.00e-1" in out
    assert "given" in out
    assert "next: train the target at 3.00e-1" in err
    assert not recipe.with_suffix(".sqlite").exists()


def test_the_report_holds_the_rate_and_the_check(run, recipe: Path) -> None:
    page = recipe.with_suffix(".html")
    code, out, err = run("tune", str(recipe), "--verify", "--workers", "1", "--report", str(page), "--json")
    assert code == 0, err
    found = json.loads(out)
    text = page.read_text("utf-8")
    for rate in (found["rate"], found["source"]["rate"], *map(float, found["check"]["losses"])):
        assert rate_text(rate) in text
    assert '<span class="formula">' + rate_text(found["rate"]) in text
    assert "checked by training" in text
    run("tune", str(recipe), "--rate", "0.3", "--report", str(page))
    assert "not checked by training" in page.read_text("utf-8")


def test_the_json_of_a_check_that_diverged_has_no_infinity(run, recipe: Path) -> None:
    code, out, err = run("tune", str(recipe), "--rate", "1e9", "--rule", "copy", "--verify", "--workers", "1", "--json")
    assert code == 0, err
    assert set(json.loads(out)["check"]["losses"].values()) == {None}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rate", "-1"], "--rate"),
        (["--rate", "0.1", "--report", "recipe.toml"], "--report recipe.toml: name a page that ends in .html."),
        (["--rate", "0.1", "--verify", "--share", "2"], "--share"),
        (["--rate", "0.1", "--rule", "lore"], "There is no rule 'lore'"),
    ],
)
def test_bad_input_gets_one_sentence(run, recipe: Path, arguments, sentence: str) -> None:
    code, out, err = run("tune", str(recipe), *arguments)
    assert (code, out) == (2, "")
    assert sentence in err


def test_a_source_without_an_optimum_says_why(run, recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("high = 10", "high = 0.011").replace("points = 7", "points = 3"))
    code, _, err = run("tune", str(recipe), "--workers", "1")
    assert code == 2
    assert "no tuned rate to carry" in err
    assert "raise the highest rate" in err


def test_the_recipe_of_the_documentation_works_as_pasted(run, recipe: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "tune.md").read_text("utf-8")
    recipe.write_text(page.partition("<<'END'\n")[2].partition("END\n")[0])
    code, out, _ = run("tune", str(recipe), "--rate", "3.16e-2")
    assert code == 0
    assert "2.63e-2" in out
    assert "1.85e-2 to 3.74e-2" in out
    study = read_study(recipe)
    assert replace(study, name="demo") == RECIPE_OF_DEMO


def test_the_page_says_how_often_a_check_was_right() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tune.md").read_text("utf-8")
    assert f"in {CHECKS_RIGHT} of {CHECKS} cases" in page
    assert f"in {CARRIED_BEST} of {CHECKS}:" in page
