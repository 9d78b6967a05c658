"""What the results page says in words is what the committed tables say in numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from depthlr.recipes.main import MAIN
from depthlr.recipes.page.families import families
from depthlr.recipes.page.kept import Kept, Sweep, read_kept
from depthlr.recipes.running.carried import tuned_rates
from depthlr.recipes.setting import Setting
from depthlr.recipes.width_epochs import WIDTH_EPOCHS

ROOT = Path(__file__).resolve().parents[2]
LAW = -1.5


@pytest.fixture(scope="module")
def kept() -> Kept:
    return read_kept(ROOT / "results" / "reproduce")


def under(kept: Kept, name: str, protocol: str) -> Sweep:
    (sweep,) = [one for one in kept.protocols(kept.sweeps[name].setting) if one.protocol == protocol]
    assert sweep.counts
    return sweep


def interval(sweep: Sweep) -> tuple[float, float]:
    fit = sweep.fit("depth")
    assert fit is not None
    return fit.interval


@pytest.mark.parametrize(
    "name", ["cifar10-cnn", "cifar100-cnn", "imagenet-cnn", "cnn-zeros", "cnn-kernel-4", "cnn-kernel-5"]
)
def test_a_cnn_of_100_steps_contains_the_law_widely_and_one_of_an_epoch_is_steeper(kept, name) -> None:
    low, high = interval(under(kept, name, "short"))
    assert low < LAW < high
    assert high - low > 0.5
    assert interval(under(kept, "cifar10-cnn", "paper"))[1] < LAW


@pytest.mark.parametrize("name", ["cifar100-cnn", "imagenet-cnn"])
def test_deep_cnns_learn_nothing_of_100_classes_in_100_steps(kept, name) -> None:
    assert under(kept, name, "short").unlearnt == (12, 16, 24, 30)


def test_resnets_of_100_steps_lie_between_minus_1_and_the_law_and_those_of_an_epoch_beyond(kept) -> None:
    for name in ("cifar10-resnet", "cifar100-resnet", "imagenet-resnet", "resnet-dropout"):
        fit = under(kept, name, "short").fit("depth")
        assert LAW < fit.slope < -1
    assert under(kept, "cifar10-resnet", "paper").fit("depth").slope < LAW


def test_post_ln_rates_of_one_epoch_fall_more_slowly_than_the_law(kept) -> None:
    one_epoch = [setting for setting in MAIN.settings if isinstance(setting, Setting) and "vit" in setting.name]
    assert len(one_epoch) == 4
    for setting in (*one_epoch, kept.sweeps["vit-480-epoch-1"].setting):
        assert interval(kept.sweeps[setting.name])[0] > LAW


def test_the_best_rate_of_the_last_epoch_rises_in_shallow_models_first(kept) -> None:
    first, second, third = (tuned_rates(under(kept, f"vit-480-epoch-{n}", "short").learnt) for n in (1, 2, 3))
    sizes = sorted(first)
    half = len(sizes) // 2
    early, late = [second[size] / first[size] for size in sizes], [third[size] / second[size] for size in sizes]
    assert sum(early[:half]) > sum(early[half:])
    assert sum(late[:half]) < sum(late[half:])


def test_two_short_epochs_steepen_the_slope_and_three_flatten_it_as_in_the_paper(kept) -> None:
    printed = {s.name: s.printed[0].slope for s in WIDTH_EPOCHS.settings if isinstance(s, Setting)}
    ours = {f"vit-480-epoch-{n}": under(kept, f"vit-480-epoch-{n}", "short").fit("depth").slope for n in (1, 2, 3)}
    assert min(ours, key=ours.get) == "vit-480-epoch-2"
    for width in (288, 480):
        assert min((1, 2, 3), key=lambda n: printed[f"vit-{width}-epoch-{n}"]) == 2
    full = [under(kept, f"vit-384-epoch-{n}", "paper").fit("depth").slope for n in (2, 3)]
    assert full == sorted(full)


def test_the_readme_names_the_slopes_of_the_page(kept) -> None:
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    middle = {
        row.split(" | ")[0].removeprefix("| "): row.split(" | ")[2].strip("*") for row in families(kept).splitlines()
    }
    assert (
        f"slopes have a median of {middle['CNNs, SGD']} for CNNs, {middle['ResNets, SGD']} for ResNets, "
        f"{middle['transformers, post-LN, SGD']} for post-LN transformers and "
        f"{middle['transformers, pre-LN, SGD']} for a pre-LN one." in readme
    )
