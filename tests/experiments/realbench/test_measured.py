"""What is measured at initialization, on models that take no time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.experiments.realbench.tiny import tiny_recipe
from torch import nn

from depthlr.errors import DepthlrError
from depthlr.study.tasks import load_data
from depthlr.transfer.measured import Measured
from depthlr.transfer.suggest import suggest_rate
from experiments.range_tests import RANGE_TESTS
from experiments.realbench import measured
from experiments.realbench.kept import is_finished
from experiments.realbench.measured import MEASURED, SEEDS, SUGGEST, SUGGESTIONS, Models, write_measured
from experiments.realbench.measuring import Measurements
from experiments.realbench.tuning_free import PRODIGY, SCHEDULE_FREE, TUNING_FREE, write_tuning_free

OPTIONS = {"seconds": None, "device": "cpu"}


def adamw(**training):
    return tiny_recipe(optimizer="adamw", momentum=None, schedule="warmup-cosine", **training)


def test_every_size_has_the_rate_that_the_rule_measures(tmp_path):
    recipe, path = adamw(variance="own"), tmp_path / "measured" / "tiny.csv"
    assert write_measured(recipe, Path(), path, batches=3 * SEEDS, **OPTIONS)
    rows = MEASURED.read(path)
    assert set(rows) == {("1",), ("2",)}
    models = Models(recipe.study, 1, load_data(recipe.study)[0], "cpu")
    asked = models.recipe(3 * SEEDS)
    found = Measured(seeds=SEEDS).measure(asked, asked)[0]
    assert float(rows["1",]["decades"]) == pytest.approx(found.rate.decades, abs=1e-5)
    assert float(rows["1",]["standard_error"]) == pytest.approx(found.rate.standard_error, rel=1e-4)
    assert int(rows["1",]["depth"]) == found.depth.total


def test_a_model_that_cannot_be_measured_has_a_row_with_the_reason(tmp_path, monkeypatch):
    def draw(self):
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        nn.init.zeros_(model[1].weight)
        nn.init.zeros_(model[1].bias)
        return model

    monkeypatch.setattr(Models, "draw", draw)
    path = tmp_path / "measured" / "tiny.csv"
    assert write_measured(adamw(), Path(), path, batches=3 * SEEDS, **OPTIONS)
    assert is_finished(path)
    assert all("readout is zero" in row["refused"] for row in MEASURED.read(path).values())
    assert all(row["decades"] == "" for row in MEASURED.read(path).values())


def test_suggestions_are_the_librarys_and_the_range_tests(tmp_path):
    recipe, path = adamw(variance="own"), tmp_path / "suggestions" / "tiny.csv"
    assert measured.write_suggestions(recipe, Path(), path, batches=3 * SEEDS, **OPTIONS)
    rows = SUGGESTIONS.read(path)
    assert len(rows) == 2 * (1 + 2 * 3)
    models = Models(recipe.study, 2, load_data(recipe.study)[0], "cpu")
    asked = models.recipe(3 * SEEDS)
    found = suggest_rate(
        models.draw, asked.batches, asked.loss_fn, asked.optimizer, schedule="warmup-cosine", seeds=SEEDS
    )
    assert float(rows["2", SUGGEST, "0"]["rate"]) == pytest.approx(found.rate, rel=1e-5)
    assert float(rows["2", SUGGEST, "0"]["high"]) == pytest.approx(found.high, rel=1e-5)
    model = models.at(1)
    rate = RANGE_TESTS["lightning"](model, models.optimizers(model), models.batches(1), models.task.loss_fn)
    assert float(rows["2", "lightning", "1"]["rate"]) == pytest.approx(rate, rel=1e-5)


def test_models_are_drawn_anew_and_alike_for_a_seed():
    models = Models(adamw().study, 1, load_data(adamw().study)[0], "cpu")
    weights = [next(model.parameters()).detach() for model in (models.at(0), models.at(0), models.at(1))]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert not torch.equal(next(models.draw().parameters()), next(models.draw().parameters()))


def test_an_error_that_is_not_ours_ends_the_job(tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "persistent_energies", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_measured(adamw(), Path(), tmp_path / "tiny.csv", batches=3 * SEEDS, **OPTIONS)
    assert not is_finished(tmp_path / "tiny.csv")


@pytest.mark.parametrize("spec", ["resnet?width=8&batch_norm=true", "mlp?width=16"])
def test_methods_without_a_rate_train_and_are_evaluated(tmp_path, spec):
    recipe = adamw(steps=200)
    vary = "blocks" if spec.startswith("resnet") else "layers"
    study = replace(recipe.study, model=replace(recipe.study.model, spec=spec, vary=vary))
    path = tmp_path / "tuning-free" / "tiny.csv"
    assert write_tuning_free(replace(recipe, study=study), Path(), path, **OPTIONS)
    rows = TUNING_FREE.read(path)
    assert set(rows) == {("1", PRODIGY, "0"), ("1", SCHEDULE_FREE, "0")}
    chance = 2.3
    assert all(float(row["train_mean"]) < chance for row in rows.values())
    assert float(rows["1", SCHEDULE_FREE, "0"]["validation"]) < chance


def test_measuring_goes_on_where_it_was(tmp_path, monkeypatch):
    recipe, path = adamw(variance="own"), tmp_path / "measured" / "tiny.csv"
    assert not write_measured(recipe, Path(), path, batches=3 * SEEDS, seconds=-1.0, device="cpu")
    assert MEASURED.read(path) == {}
    assert write_measured(recipe, Path(), path, batches=3 * SEEDS, **OPTIONS)
    before = path.read_bytes()
    monkeypatch.setattr(measured, "persistent_energies", lambda *_, **__: DepthlrError("called"))
    assert write_measured(recipe, Path(), path, batches=3 * SEEDS, **OPTIONS)
    assert path.read_bytes() == before


def test_a_table_of_another_study_is_refused_and_kept(tmp_path):
    path, table = tmp_path / "tiny.csv", Measurements(("size",), ("loss",))
    assert table.fill(path, "one", [(1,)], lambda size: {"loss": 0.5})
    before = path.read_bytes()
    with pytest.raises(DepthlrError, match="another study"):
        table.fill(path, "other", [(1,), (2,)], lambda size: {"loss": 0.25})
    assert path.read_bytes() == before
