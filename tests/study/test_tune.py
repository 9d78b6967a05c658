"""The main job in parts: which sweep tunes the source, how its rate is carried, and what checks it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from depthlr.data.sources import load
from depthlr.errors import DepthlrError
from depthlr.law.rules import CONSTANT_EXPONENT
from depthlr.study.description import Models, Search, Study
from depthlr.study.tune import carry_to_target, check_recipe, source_study, verification_study
from depthlr.training.training import Training

SHORT = Study(
    "recipe",
    Models("mlp?width=16", "layers", (1, 4)),
    Training(steps=40, batch=32),
    search=Search(points=9, seeds=(3, 5)),
)
LONG = replace(SHORT, training=Training(steps=600, batch=32, schedule="warmup-cosine", warmup=60))
DIGITS = load("digits")


def test_the_source_is_the_first_size() -> None:
    assert source_study(SHORT).model.sizes == (1,)
    assert replace(source_study(SHORT), model=SHORT.model) == SHORT


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (Models("mlp?width=16", "layers", (1,)), "two sizes, the source that is tuned and the target"),
        (Models("mlp?width=16", "layers", (1, 2, 3)), "two sizes"),
    ],
)
def test_a_recipe_has_two_sizes(model: Models, sentence: str) -> None:
    check_recipe(SHORT)
    with pytest.raises(DepthlrError, match=sentence):
        check_recipe(replace(SHORT, model=model))


def test_a_recipe_names_its_model() -> None:
    with pytest.raises(DepthlrError, match=r"needs model\.spec and model\.vary"):
        check_recipe(Study("recipe", Models(sizes=(1, 2)), Training()))


def test_a_long_recipe_is_carried_by_the_constant_exponent() -> None:
    carried = carry_to_target(LONG, 0.1, DIGITS)
    assert carried.rule == "constant"
    assert carried.rate == pytest.approx(0.1 * (carried.target_depth / carried.source_depth) ** CONSTANT_EXPONENT)


def test_a_short_recipe_is_measured_and_any_rule_can_be_named() -> None:
    carried = carry_to_target(SHORT, 0.1, DIGITS)
    assert carried.rule == "measured"
    assert carried.low < carried.rate < carried.high
    assert carry_to_target(SHORT, 0.1, DIGITS) == carried  # the same models and batches every time
    assert carry_to_target(SHORT, 0.1, DIGITS, "copy").rate == 0.1


def test_a_check_trains_the_target_at_three_rates_through_the_whole_schedule() -> None:
    checked = verification_study(LONG, 0.2, DIGITS)
    assert checked.model.sizes == (4,)
    assert checked.search.rates == pytest.approx((0.1, 0.2, 0.4))
    assert checked.search.seeds == (3,)
    assert (checked.training.steps, checked.training.warmup) == (60, 6)
    assert checked.training.schedule == "warmup-cosine"
    shares = verification_study(replace(LONG, training=replace(LONG.training, warmup=0.1)), 0.2, DIGITS)
    assert shares.training.warmup == 0.1


def test_a_check_in_full_has_the_recipes_own_training() -> None:
    assert verification_study(LONG, 0.2, DIGITS, 1).training == LONG.training
    with pytest.raises(DepthlrError, match="--share"):
        verification_study(LONG, 0.2, DIGITS, 1.5)


def test_epochs_are_counted_in_steps() -> None:
    epochs = replace(SHORT, training=Training(epochs=4, batch=32, metric="last_epoch"))
    assert verification_study(epochs, 0.2, DIGITS).training.steps == round(0.1 * 4 * (len(DIGITS) // 32))
