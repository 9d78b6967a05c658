"""Settings are stated once, run once, and mean under a protocol what the protocol says."""

from __future__ import annotations

import pytest

from depthlr.errors import DepthlrError
from experiments.paper.recipes import (
    CIFAR10_CNN,
    CIFAR10_RESNET,
    CIFAR10_VIT,
    IMAGENET_VIT,
    RECIPES,
    VIT_384_EPOCH_3,
    WIDTH_EPOCHS,
)
from experiments.paper.running.jobs import chosen, home
from experiments.paper.settings import PLACES, PROTOCOLS, EnergySetting, Setting

SWEEPS = [setting for setting in chosen() if isinstance(setting, Setting)]


def test_a_name_stands_for_one_setting() -> None:
    settings = [setting for recipe in RECIPES.values() for setting in recipe.settings]
    for setting in settings:
        assert all(other is setting for other in settings if other.name == setting.name)


def test_shared_settings_are_run_where_they_matter_most() -> None:
    assert CIFAR10_CNN in RECIPES["ablation"].settings
    assert CIFAR10_CNN in RECIPES["kernel"].settings
    assert CIFAR10_CNN in RECIPES["padding"].settings
    assert CIFAR10_RESNET in RECIPES["pathsum"].settings
    assert CIFAR10_VIT in RECIPES["variants"].settings
    assert IMAGENET_VIT in RECIPES["ablation"].settings
    assert {home(s).name for s in (CIFAR10_CNN, CIFAR10_RESNET, CIFAR10_VIT, IMAGENET_VIT)} == {"main"}
    assert VIT_384_EPOCH_3 in WIDTH_EPOCHS.settings
    assert home(VIT_384_EPOCH_3).name == "zero-shot"


def test_the_papers_protocol_is_the_whole_grid_three_seeds_and_full_epochs() -> None:
    for setting in SWEEPS:
        study = setting.study("paper")
        search = ("adaptive", 80, (0, 1, 2)) if setting.scan is None else ("grid", setting.scan, (0,))
        assert (study.search.kind, study.search.points, study.search.seeds) == search
        assert study.training.batch == 128
        assert study.data.limit is None
        assert study.training.epochs == (None if setting.steps else setting.epochs)


def test_the_papers_ranges_are_those_it_states() -> None:
    for setting in SWEEPS:
        if setting.optimizer == "sgd":
            wanted = (1e-5, 1.0) if setting.spec.startswith(("vit", "beit", "cct")) else (1e-4, 10.0)
            assert (setting.low, setting.high) == wanted, setting.name


def test_the_short_protocol_has_a_hundred_batches_an_epoch() -> None:
    for setting in SWEEPS:
        study = setting.study("short")
        if study.training.steps is None:
            assert study.data.limit == 100 * 128
            assert study.training.epochs == setting.epochs
        else:
            assert study.training.steps == 100


def test_more_epochs_begin_with_fewer_under_every_protocol() -> None:
    """Otherwise cells could not be taken over."""
    for setting in SWEEPS:
        if setting.longer is None:
            continue
        for protocol in PROTOCOLS:
            one, other = setting.study(protocol), setting.longer.study(protocol)
            assert (one.model, one.data, one.search) == (other.model, other.data, other.search)
            assert other.training.epochs == 3 > (one.training.epochs or 0) >= 1


def test_every_place_is_one_of_the_papers() -> None:
    for recipe in RECIPES.values():
        assert set(recipe.places) <= set(PLACES)
        for setting in recipe.settings:
            assert {printed.where for printed in setting.printed} <= set(PLACES)


def test_energies_are_measured_on_a_single_step() -> None:
    for setting in chosen(["theory"]):
        assert isinstance(setting, EnergySetting)
        assert setting.study("paper").training.steps == 1
        assert 2 * max(setting.sizes) >= 256, "several hundred units"


@pytest.mark.parametrize(
    ("recipes", "only", "sentence"),
    [
        (["mian"], [], r"no recipe 'mian' \(did you mean 'main'\?\)"),
        (["main"], ["cifar10-cct"], "no setting 'cifar10-cct'"),
    ],
)
def test_what_is_unknown_is_named_with_the_nearest(recipes: list[str], only: list[str], sentence: str) -> None:
    with pytest.raises(DepthlrError, match=sentence):
        chosen(recipes, only)


def test_an_unknown_protocol_is_named() -> None:
    with pytest.raises(DepthlrError, match=r"no protocol 'papr' .*choose from paper, short, smoke"):
        CIFAR10_CNN.study("papr")
