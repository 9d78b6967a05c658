"""Sweeps of libraries' models as they are: the studies name them, and a row says what a sweep took and found."""

from __future__ import annotations

import pytest

from depthlr.models.build import build
from depthlr.study import Data, Models, Search, Study, Training, read_study
from depthlr.trace.depth import effective_depth
from experiments.realbench.unchanged import STUDIES, shortened, sweep_unchanged

DEPTHS = {  # of the two sizes, worked out by hand: stem + residual updates + head
    "hf-gpt2": (6, 18),
    "hf-llama": (6, 18),
    "timm-vit": (6, 18),
    "timm-convnext": (10, 22),  # behind a stem of stride 2, each of four stages begins with a shrinking layer
    "timm-resnet": (6, 18),
}


@pytest.mark.parametrize("name", sorted(DEPTHS))
def test_a_study_keeps_the_librarys_initialization_and_is_judged_by_validation_loss(name) -> None:
    study = read_study(STUDIES / f"{name}.toml")
    input = "ids:256:256" if name.startswith("hf") else "3x32x32"
    depths = [
        effective_depth(*build(study.model.spec_at(size), input=input, meta=True)).total for size in study.model.sizes
    ]
    assert tuple(depths) == DEPTHS[name]
    training = study.training
    assert (training.variance, training.metric, training.precision) == ("own", "validation", "bf16")
    assert training.schedule == "warmup-cosine"


def test_all_studies_are_tested() -> None:
    assert {file.stem for file in STUDIES.glob("*.toml")} == set(DEPTHS)


def test_a_sweep_tells_cells_and_tuned_rates_and_resumes(tmp_path) -> None:
    study = Study(
        "tiny",
        Models("mlp?width=8", "layers", (1, 2)),
        Training(steps=20, batch=16, metric="validation"),
        Data("digits", validation=100),
        Search("grid", 1e-3, 1e1, 9, seeds=(0,)),
    )
    found = sweep_unchanged(study, tmp_path)
    assert (found.study, found.cells, found.failed) == ("tiny", 18, 0)
    assert found.ran == "1: eager; 2: eager"
    again = sweep_unchanged(study, tmp_path)
    assert again.tuned == found.tuned != ""
    assert again.ran == ""  # nothing was left to train
    shorter = tmp_path / "shorter"
    shorter.mkdir()
    assert sweep_unchanged(shortened(study), shorter).cells == 3
