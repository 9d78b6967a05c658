"""What the results page says in words is what the committed tables say in numbers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from depthlr.law.fit import Fit, fit_power_law
from depthlr.present.numbers import signed
from depthlr.recipes.main import MAIN
from depthlr.recipes.page.changes import CHANGES, changes, difference, told
from depthlr.recipes.page.families import families
from depthlr.recipes.page.kept import Kept, Sweep, read_kept
from depthlr.recipes.page.sensitivity import apart, sensitivity
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
    for name in (*(setting.name for setting in one_epoch), *(f"vit-{width}-epoch-1" for width in (288, 384, 480))):
        assert interval(kept.sweeps[name])[0] > LAW


@pytest.mark.parametrize("width", [288, 480])
def test_the_second_short_epoch_raises_rates_in_shallow_models_most_and_the_third_in_deep_ones_too(kept, width) -> None:
    first, second, third = (under(kept, f"vit-{width}-epoch-{n}", "short").learnt.tuned_rates for n in (1, 2, 3))
    sizes = sorted(first)
    half = len(sizes) // 2
    early, late = [second[size] / first[size] for size in sizes], [third[size] / second[size] for size in sizes]
    assert sum(early[:half]) > sum(early[half:])
    assert min(late[half:]) > 1


def test_two_short_epochs_steepen_the_slope_and_three_flatten_it_as_in_the_paper_and_full_ones_flatten_it(kept) -> None:
    printed = {s.name: s.printed[0].slope for s in WIDTH_EPOCHS.settings if isinstance(s, Setting)}
    clear = []
    for width, protocol in ((288, "short"), (384, "paper"), (480, "short")):
        names = [f"vit-{width}-epoch-{n}" for n in (1, 2, 3)]
        ours = [under(kept, name, protocol).fit("depth") for name in names]
        steepest = (-np.array([[fit.slope for fit in ours], [printed[name] for name in names]])).argmax(axis=1)
        assert steepest.tolist() == ([0, 2] if width == 384 else [1, 1])
        moves = {(a, b): told(*difference(ours[a], ours[b])) for a, b in ((0, 1), (1, 2), (0, 2))}
        clear += [(width, *move, verdict) for move, verdict in moves.items() if verdict != "not told apart"]
    full = [under(kept, f"vit-384-epoch-{n}", "paper").fit("depth").slope for n in (1, 2, 3)]
    assert full == sorted(full)
    assert clear == [(480, 0, 1, "steeper")]


def test_full_epochs_raise_the_rates_at_every_depth(kept) -> None:
    first, second, third = (under(kept, f"vit-384-epoch-{n}", "paper").learnt.tuned_rates for n in (1, 2, 3))
    assert all(first[size] < second[size] <= third[size] for size in first)


def test_pre_ln_slopes_are_those_the_page_names(kept) -> None:
    page = " ".join((ROOT / "docs" / "results.md").read_text("utf-8").split())
    sgd, adamw = (kept.sweeps[name].fit("depth").slope for name in ("imagenet-vit-pre-ln", "text-gpt"))
    assert f"{signed(sgd)} with SGD, {signed(adamw)} for a character GPT with AdamW." in page


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


def slopes(kept: Kept, name: str, protocol: str = "short") -> tuple[Fit, Fit]:
    sweep = under(kept, name, protocol)
    size, depth = sweep.fit("size"), sweep.fit("depth")
    assert size is not None
    assert depth is not None
    return size, depth


def test_the_depth_that_is_counted_decides_a_tenth_to_almost_half_of_a_power(kept) -> None:
    counted = [sweep for sweep in kept.sweeps.values() if sweep.counts and sweep.setting.label == "size"]
    moved = {s.setting.name: s.fit("size").slope - s.fit("depth").slope for s in counted}
    assert 0.095 < min(moved.values()) < max(moved.values()) < 0.455
    assert min(moved[name] for name in moved if "resnet" in name) > 0.195


def test_three_of_four_resnets_contain_the_law_over_total_depth_and_none_over_blocks(kept) -> None:
    names = ("cifar10-resnet", "cifar100-resnet", "imagenet-resnet", "resnet-dropout")
    fits = [(kept.sweeps[name].fit("depth"), kept.sweeps[name].fit("size")) for name in names]
    assert [total.interval[0] <= LAW for total, _ in fits] == [True, False, True, True]
    assert all(total.interval[1] >= LAW for total, _ in fits)
    assert not any(blocks.interval[0] <= LAW for _, blocks in fits)
    table = sensitivity([sweep for sweep in kept.sweeps.values() if sweep.counts])
    for name in names:
        assert f"| {kept.sweeps[name].setting.title} |" in table


def test_batch_norm_falls_faster_by_two_thirds_of_a_power(kept) -> None:
    with_norm, without = slopes(kept, "resnet-batch-norm")[0], slopes(kept, "cifar10-resnet")[0]
    assert with_norm.slope - without.slope == pytest.approx(-2 / 3, abs=0.05)


def test_seeds_that_settle_apart_are_those_the_page_names(kept) -> None:
    counted = [sweep for sweep in kept.sweeps.values() if sweep.counts]
    scattered = {sweep.setting.name: apart(sweep) for sweep in counted if "cnn" in sweep.setting.name and apart(sweep)}
    assert set(scattered) == {"cnn-gelu", "cnn-gelu-he", "cnn-adam", "cnn-zeros", "cnn-kernel-5", "cifar10-cnn"}
    assert scattered["cifar10-cnn"] == (24,)


@pytest.mark.parametrize(("name", "whole", "cut"), [("cifar10-cnn", -1.70, -1.40), ("cifar10-resnet", -1.29, -1.12)])
def test_a_grid_that_ends_at_a_tenth_flattens_the_slope(kept, name, whole, cut) -> None:
    rates = under(kept, name, "paper").learnt.tuned_rates
    for most, stated in ((math.inf, whole), (0.1, cut)):
        logs = np.log10([min(rate, most) for rate in rates.values()])
        assert np.polyfit(np.log10(list(rates)), logs, 1)[0] == pytest.approx(stated, abs=0.005)


def test_a_change_is_told_where_both_were_trained_alike(kept) -> None:
    table = changes(kept)
    assert len(table.splitlines()) == 2 + len(CHANGES)
    paper = {name: sweep for name, sweep in kept.sweeps.items() if sweep.protocol == "paper"}
    assert changes(Kept(paper, {})) == ""  # only baselines
    steep, flat = (
        fit_power_law([4, 8, 16, 32] * 2, [n**slope * 10**jitter for jitter in (-0.05, 0.05) for n in (4, 8, 16, 32)])
        for slope in (-1.9, -1.2)
    )
    assert told(*difference(flat, steep)) == "steeper"
    assert told(*difference(steep, flat)) == "shallower"
    assert told(*difference(flat, flat)) == "not told apart"
    half = steep.interval[1] - steep.slope
    assert difference(flat, steep) == (pytest.approx(-0.7), pytest.approx(math.sqrt(2) * half))
