"""`depthlr tune`: a rate with its interval from a recipe of two sizes; run again, it trains nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from torch import nn

from depthlr.cli.tune import RECIPE as RECIPE_OF_DEMO
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
steps = 100
batch = 64
schedule = "warmup-cosine"
variance = "own"

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
    code, out, err = run("tune", str(recipe), "--verify", "--share", "0.2", "--workers", "1", "--json")
    assert code == 0, err
    found = json.loads(out)
    source = read_results(recipe.with_suffix(".sqlite"))
    assert found["source"]["rate"] == pytest.approx(source.tuned_rates[1])
    assert found["source"]["cells"] == len(source.records) == 14
    carried = found["carried"]
    assert carried["rule"] == "constant"
    assert carried["low"] < found["rate"] == carried["rate"] < carried["high"]
    assert found["check"]["steps"] == 20
    assert len(found["check"]["losses"]) == 3
    assert f"{found['check']['best']:.2e}" in {f"{float(rate):.2e}" for rate in found["check"]["losses"]}
    again = run("tune", str(recipe), "--verify", "--share", "0.2", "--workers", "1", "--json")
    assert again[1] == out


def test_a_recipe_that_init_draws_is_outside_the_evidence_for_the_constant_exponent(run, recipe: Path) -> None:
    recipe.write_text(RECIPE.replace('variance = "own"\n', ""))
    code, out, err = run("tune", str(recipe), "--rate", "0.3", "--json")
    carried = json.loads(out)["carried"]
    assert code == 0, err
    assert (carried["rule"], carried["in_scope"], carried["low"]) == ("constant", False, None)
    assert "as init_ draws them" in carried["notes"][0]


def test_a_rate_that_is_given_is_not_tuned(run, recipe: Path) -> None:
    code, out, err = run("tune", str(recipe), "--rate", "0.3", "--rule", "copy")
    assert code == 0
    assert "3.00e-1" in out
    assert "given" in out
    assert "next: train the target at 3.00e-1" in err
    assert "next: check the rate by training: the same command with --verify" in err
    assert not recipe.with_suffix(".sqlite").exists()


def test_the_report_holds_the_rate_and_the_check(run, recipe: Path) -> None:
    page = recipe.with_suffix(".html")
    options = ("--verify", "--share", "0.2", "--workers", "1", "--report", str(page), "--json")
    code, out, err = run("tune", str(recipe), *options)
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
    options = ("--rate", "1e9", "--rule", "copy", "--verify", "--share", "0.2", "--workers", "1", "--json")
    code, out, err = run("tune", str(recipe), *options)
    assert code == 0, err
    assert set(json.loads(out)["check"]["losses"].values()) == {None}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rate", "-1"], "--rate"),
        (["--rate", "0.1", "--report", "recipe.toml"], "--report recipe.toml: name a page that ends in .html."),
        (["--rate", "0.1", "--verify", "--share", "2"], "--share is 2: give a number above 0, and 1 for the whole"),
        (["--rate", "0.1", "--share", "0.5"], "--share is of a check by training: add --verify."),
        (["--rate", "0.1", "--rule", "lore"], "There is no rule 'lore'"),
    ],
)
def test_bad_input_gets_one_sentence(run, recipe: Path, arguments, sentence: str) -> None:
    code, out, err = run("tune", str(recipe), *arguments)
    assert (code, out) == (2, "")
    assert sentence in err


def test_a_check_of_too_few_steps_is_refused_before_anything_trains(run, recipe: Path) -> None:
    code, _, err = run("tune", str(recipe), "--verify")
    assert code == 2
    assert "--verify would train 10 of 100 steps, which are too few to show anything: add --share 0.2." in err
    assert not recipe.with_suffix(".sqlite").exists()


@pytest.mark.parametrize(
    ("edit", "options", "sentence"),
    [
        (("", ""), ("--rule", "lore"), "There is no rule 'lore'"),
        (('spec = "', 'spec = "tests.cli.test_tune:shallow?width=8" # '), (), "no more than two layers"),
        (
            ('spec = "', 'spec = "tests.cli.test_tune:stuck?width=8" # '),
            (),
            "stuck?layers=3&width=8: the model could",
        ),
    ],
    ids=["rule", "target", "forward"],
)
def test_what_is_wrong_with_the_target_is_said_before_the_source_is_trained(run, recipe, edit, options, sentence):
    recipe.write_text(RECIPE.replace(*edit))
    code, _, err = run("tune", str(recipe), *options)
    assert code == 2
    assert sentence in err
    assert not recipe.with_suffix(".sqlite").exists()


def shallow(layers: int = 1, width: int = 8) -> nn.Module:
    """A model that cannot be deep."""
    if layers > 2:
        raise ValueError("no more than two layers")
    hidden = [module for _ in range(layers) for module in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), *hidden, nn.Linear(width, 10))


def stuck(layers: int = 1, width: int = 8) -> nn.Module:
    """A model that runs only if it is shallow."""
    return nn.Sequential(shallow(min(layers, 2), width), *(nn.Linear(7, 7) for _ in range(layers - 2)))


def test_checks_of_other_lengths_have_files_of_their_own(run, recipe: Path) -> None:
    for share in ("0.5", "0.75"):
        arguments = ("--rate", "0.3", "--rule", "copy", "--verify", "--share", share, "--workers", "1")
        code, _, err = run("tune", str(recipe), *arguments)
        assert code == 0, err
    assert {path.name for path in recipe.parent.glob("*.sqlite")} == {
        "recipe-check-0.3-0.5.sqlite",
        "recipe-check-0.3-0.75.sqlite",
    }


def test_a_recipe_of_a_command_is_refused_at_once_with_what_to_type(run, recipe: Path) -> None:
    recipe.write_text("[model]\nsizes = [2, 4]\n[training]\ncommand = 'train {rate} {size} {seed}'\n")
    code, _, err = run("tune", str(recipe))
    assert code == 2
    assert "tune the source with depthlr sweep, and carry its rate with depthlr transfer" in err
    assert not recipe.with_suffix(".sqlite").exists()


def test_a_source_without_an_optimum_says_why(run, recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("high = 10", "high = 0.011").replace("points = 7", "points = 3"))
    code, _, err = run("tune", str(recipe), "--workers", "1")
    assert code == 2
    assert "no tuned rate to carry" in err
    assert "raise the highest rate" in err
    assert f"Change [search] in {recipe}, and delete {recipe.with_suffix('.sqlite')}." in " ".join(err.split())
    wider = RECIPE.replace("high = 10", "high = 10 # wider")
    recipe.write_text(wider)
    assert "delete this one" in run("tune", str(recipe), "--workers", "1")[2]
    recipe.with_suffix(".sqlite").unlink()
    assert run("tune", str(recipe), "--workers", "1")[0] == 0


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
