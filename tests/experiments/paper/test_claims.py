"""What the results page says in words is what the committed tables say in numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from depthlr.formatting import signed
from depthlr.law.carried_rate import ADAPTIVE, BATCH_NORM, LAW_FINDINGS, PRE_NORM
from depthlr.law.fit import Fit, fit_power_law
from experiments.paper.page.answer import (
    CHANGES,
    apart,
    averages,
    changes,
    difference,
    families,
    family,
    sensitivity,
    told,
)
from experiments.paper.page.kept import Kept, Sweep, read_kept
from experiments.paper.page.pictures import both
from experiments.paper.page.zero_shot_tables import errors
from experiments.paper.recipes import MAIN, SCANS, WIDTH_EPOCHS
from experiments.paper.settings import Setting

ROOT = Path(__file__).resolve().parents[3]
LAW = -1.5


@pytest.fixture(scope="module")
def kept() -> Kept:
    return read_kept(ROOT / "results" / "reproduce")


@pytest.fixture(scope="module")
def page() -> str:
    """In one line."""
    return " ".join((ROOT / "docs" / "results.md").read_text("utf-8").split())


def under(kept: Kept, name: str, protocol: str) -> Sweep:
    (sweep,) = [one for one in kept.protocols(kept.sweeps[name].setting) if one.protocol == protocol]
    assert sweep.counts
    return sweep


def at(sweep: Sweep, sizes: Sequence[int]) -> Sweep:
    """At these sizes alone."""
    records = tuple(record for record in sweep.results.records if record.cell.size in sizes)
    return replace(sweep, results=replace(sweep.results, records=records))


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


def test_of_the_cnns_of_full_epochs_one_is_told_from_the_law_and_those_of_images_lie_beyond_it(kept, page) -> None:
    names = ("cifar10-cnn", "cifar100-cnn", "imagenet-cnn", "audio-cnn")
    found = [under(kept, name, "paper") for name in names]
    assert [interval(sweep)[1] < LAW for sweep in found] == [True, False, False, False]
    assert all(interval(sweep)[0] < LAW for sweep in found)
    assert all(sweep.fit("depth").slope < LAW for sweep in found[:3])
    assert "CIFAR-100, the ImageNet subset and spoken digits, full epochs: the intervals contain −3/2." in page
    assert found[0].fit("size").interval[1] < LAW
    fewer = signed(at(found[2], (3, 4, 6, 8)).fit("depth").slope)
    for sweep, data, last in ((found[1], "CIFAR-100", "–"), (found[2], "the ImageNet subset", fewer)):
        all_depths = replace(sweep, unlearnt=()).fit("depth")
        slopes = [signed(fit.slope) for fit in (sweep.fit("size"), sweep.fit("depth"), all_depths)]
        assert f"| {data} | {' | '.join(slopes)} | {last} |" in page


@pytest.mark.parametrize(("name", "after_an_epoch"), [("cifar100-cnn", (24, 30)), ("imagenet-cnn", (16, 24, 30))])
def test_deep_cnns_learn_nothing_of_100_classes(kept, name, after_an_epoch) -> None:
    assert under(kept, name, "short").unlearnt == (12, 16, 24, 30)
    assert under(kept, name, "paper").unlearnt == after_an_epoch


def test_resnets_lie_between_minus_1_and_the_law_but_for_a_full_epoch_of_cifar10(kept) -> None:
    images = [(name, protocol) for name in ("cifar100-resnet", "imagenet-resnet") for protocol in ("short", "paper")]
    for name, protocol in (*images, ("cifar10-resnet", "short"), ("resnet-dropout", "short")):
        assert LAW < under(kept, name, protocol).fit("depth").slope < -1
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


def test_pre_ln_slopes_are_those_the_page_names(kept, page) -> None:
    sgd, adamw = (kept.sweeps[name].fit("depth").slope for name in ("imagenet-vit-pre-ln", "text-gpt"))
    assert f"{signed(sgd)} with SGD, {signed(adamw)} for a character GPT with AdamW." in page


@pytest.mark.parametrize(
    ("fact", "names"),
    [
        (PRE_NORM, ("imagenet-vit-pre-ln", "text-gpt")),
        (BATCH_NORM, ("resnet-batch-norm",)),
        (ADAPTIVE, ("cnn-adam", "resnet-adam")),
    ],
)
def test_slopes_that_the_law_is_noted_with_are_those_of_the_tables(kept, fact, names) -> None:
    for name in names:
        assert f"depth^{kept.sweeps[name].fit('depth').slope:.2f}" in LAW_FINDINGS[fact].sentence


def test_the_page_and_the_readme_begin_with_the_slopes_of_the_tables(kept, page) -> None:
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    middle = {
        row.split(" | ")[0].removeprefix("| "): row.split(" | ")[2].strip("*") for row in families(kept).splitlines()
    }
    kinds = ("CNNs, SGD", "ResNets, SGD", "transformers, post-LN, SGD", "transformers, pre-LN, SGD")
    slopes = [middle[kind] for kind in kinds]
    said = (
        "slopes over total depth have a median of {} for CNNs, {} for ResNets, {} for post-LN transformers and {} for"
    )
    assert said.format(*slopes) in readme
    said = "The median slopes are: - CNNs: {}. - ResNets: {}. - Post-LN transformers: {}. - A pre-LN transformer: {}."
    assert said.format(*slopes) in page
    off = {rule: f"{np.median(np.abs(each)):.3f}" for rule, each in errors(kept.sweeps["vit-384-epoch-3"]).items()}
    assert f"- The law: {off['law']} decades, no better than the copied rate. " in page
    assert f"- The copied rate: {off['copy']} decades. " in page
    assert f"- Energies measured at initialization: {off['measured']} decades. " in page
    stay = sensitivity([sweep for sweep in kept.sweeps.values() if sweep.counts]).split(" verdicts stay")[0]
    assert f"Of 34 verdicts on −3/2, {stay.removesuffix(' of 34')} stay" in page


def slopes(kept: Kept, name: str, protocol: str = "short") -> tuple[Fit, Fit]:
    sweep = under(kept, name, protocol)
    size, depth = sweep.fit("size"), sweep.fit("depth")
    assert size is not None
    assert depth is not None
    return size, depth


def test_the_depth_that_is_counted_decides_up_to_a_third_of_a_power_and_more_with_batch_norm(kept) -> None:
    counted = [sweep for sweep in kept.sweeps.values() if sweep.counts and sweep.setting.label == "size"]
    moved = {s.setting.name: s.fit("size").slope - s.fit("depth").slope for s in counted}
    assert moved.pop("resnet-batch-norm") == pytest.approx(0.45, abs=5e-3)
    assert 0.095 < min(moved.values()) < max(moved.values()) < 0.345
    assert min(moved[name] for name in moved if "resnet" in name) > 0.195


def test_three_of_four_resnets_contain_the_law_over_total_depth_and_none_over_blocks(kept) -> None:
    names = ("cifar10-resnet", "cifar100-resnet", "imagenet-resnet", "resnet-dropout")
    fits = [(kept.sweeps[name].fit("depth"), kept.sweeps[name].fit("size")) for name in names]
    assert [total.interval[0] <= LAW for total, _ in fits] == [True, False, True, True]
    assert all(total.interval[1] >= LAW for total, _ in fits)
    assert not any(blocks.interval[0] <= LAW for _, blocks in fits)
    table = sensitivity([sweep for sweep in kept.sweeps.values() if sweep.counts])
    turned = [f"| {kept.sweeps[name].setting.title} |" in table for name in names]
    assert turned == [True, False, True, True]


def test_batch_norm_falls_faster_by_two_thirds_of_a_power(kept) -> None:
    with_norm, without = slopes(kept, "resnet-batch-norm")[0], slopes(kept, "cifar10-resnet")[0]
    assert with_norm.slope - without.slope == pytest.approx(-2 / 3, abs=0.05)


def test_seeds_that_settle_apart_are_those_the_page_names(kept) -> None:
    scattered = {s.setting.name: apart(s) for s in kept.sweeps.values() if s.counts and apart(s)}
    baseline, wide = scattered.pop("cifar10-cnn"), scattered.pop("vit-480-epoch-2")
    assert (baseline, wide) == ((24,), (20,))
    assert set(scattered) == {"cnn-gelu", "cnn-gelu-he", "cnn-adam", "cnn-zeros", "cnn-kernel-5"}


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


def test_100_steps_flatten_slopes_a_little_on_cifar10(kept, page) -> None:
    both = [found for name in kept.sweeps if len(found := kept.protocols(kept.sweeps[name].setting)) > 1]
    pairs = [(full, short) for full, short in both if full.counts and short.counts]
    assert [full.protocol for full, _ in pairs] == ["paper"] * 11
    moves = {full.setting.name: difference(full.fit("depth"), short.fit("depth")) for full, short in pairs}
    assert {told(*move) for move in moves.values()} == {"not told apart"}
    assert all(moves[f"cifar10-{model}"][0] > 0 for model in ("cnn", "resnet", "vit"))

    def together(start: str) -> str:
        """Weighted by one over the variance."""
        chosen = np.array([move for name, move in moves.items() if name.startswith(start)])
        weights = chosen[:, 1] ** -2
        return f"{weights @ chosen[:, 0] / weights.sum():.2f} ± {weights.sum() ** -0.5:.2f}"

    assert f"| CNN, ResNet and ViT, CIFAR-10 | 100 of 390 | {together('cifar10-')} | all three are shallower" in page
    assert f"| the ImageNet subset | 100 of 195 | {together('imagenet-')} | no difference |" in page
    assert f"| all eleven | – | {together('')} | no clear difference |" in page


def test_three_of_nine_short_verdicts_would_turn_if_slopes_were_as_much_steeper(kept) -> None:
    short = [sweep for sweep in kept.sweeps.values() if sweep.counts and sweep.protocol == "short"]
    assert (len(short), sum(sweep.setting.data == "cifar10" for sweep in short)) == (19, 17)
    shallower = [sweep for sweep in short if interval(sweep)[0] > LAW]
    assert len(shallower) == 9
    turned = [sweep.setting.name for sweep in shallower if interval(sweep)[0] - 0.15 <= LAW]
    assert sorted(turned) == ["cnn-adam", "vit-288-epoch-1", "vit-480-epoch-3"]


def test_post_ln_slopes_of_100_classes_steepen_with_depth(kept) -> None:
    names = ("cifar100-vit", "imagenet-vit", "imagenet-vit-patch-8")
    found = [sweep for name in names for sweep in kept.protocols(kept.sweeps[name].setting)]
    assert len(found) == 5
    for sweep in found:
        shallow, deep = (at(sweep, sizes).fit("depth") for sizes in ((2, 4, 6, 8), (8, 12, 16, 20)))
        assert -0.75 < shallow.slope < -0.45
        assert -1.25 < deep.slope < -0.95
        assert deep.interval[0] < LAW


def test_a_full_epoch_of_the_resnet_is_steeper_over_total_depth_and_not_told_from_100_steps(kept) -> None:
    full, short = (under(kept, "cifar10-resnet", protocol).fit("depth") for protocol in ("paper", "short"))
    assert full.slope < LAW < short.slope
    assert told(*difference(full, short)) == "not told apart"


def test_the_full_baseline_is_steeper_than_the_law_without_the_size_whose_seeds_lie_apart(kept) -> None:
    sweep = under(kept, "cifar10-cnn", "paper")
    others = [size for size in sweep.results.study.model.sizes if size not in apart(sweep)]
    assert interval(at(sweep, others))[1] < LAW


def test_short_epochs_have_the_same_12800_images(kept) -> None:
    limits = {(s.setting.epochs > 1 or s.setting.longer is not None): set() for s in kept.sweeps.values()}
    for sweep in kept.sweeps.values():
        if sweep.protocol == "short":
            limits[sweep.setting.epochs > 1 or sweep.setting.longer is not None].add(sweep.results.study.data.limit)
    assert limits == {True: {12800}, False: {None}}


def test_most_post_ln_settings_are_one_vit_and_none_of_one_epoch_of_images_contains_the_law(kept) -> None:
    found = [s for s in kept.sweeps.values() if s.counts and family(s.setting) == "transformers, post-LN, SGD"]
    assert len(found) == 16
    assert sum(s.setting.data == "cifar10" and s.setting.spec.startswith("vit") for s in found) == 10
    containing = [s.setting for s in found if interval(s)[0] <= LAW <= interval(s)[1]]
    assert len(containing) == 4
    assert all(setting.epochs > 1 or setting.data not in ("cifar10", "cifar100", "images") for setting in containing)


def test_three_epochs_together_are_16_to_26_times_faster_than_one_plain_grid(kept) -> None:
    ratios = []
    for width in (288, 384, 480):
        *shorter, longest = (kept.sweeps[f"vit-{width}-epoch-{n}"].facts for n in (1, 2, 3))
        spent = sum(facts["sweep_seconds"] for facts in (*shorter, longest))
        ratios.append(longest["plain_grid_seconds"] / spent)
        assert 0.2 < sum(facts["sweep_seconds"] for facts in shorter) / longest["sweep_seconds"] < 0.5
    assert sorted(round(ratio) for ratio in ratios) == [16, 20, 26]


def test_the_page_of_sweeps_names_how_much_faster_the_papers_were(kept) -> None:
    alone = [s for name in kept.sweeps for s in kept.protocols(kept.sweeps[name].setting) if s.setting.longer is None]
    times = [(s.facts["plain_grid_seconds"], s.facts["sweep_seconds"]) for s in alone if s.counts]
    ratios = [plain / took for plain, took in times if plain]
    assert f"{min(ratios):.0f} to {max(ratios):.0f} times faster" in (ROOT / "docs" / "sweep.md").read_text("utf-8")


def test_averages_are_those_of_nine_settings_each(kept) -> None:
    names = (
        "cifar10-cnn cifar10-resnet cifar10-vit cifar100-cnn cifar100-resnet cifar100-vit imagenet-cnn imagenet-resnet"
    )
    main = [kept.sweeps[name] for name in (*names.split(), "imagenet-vit")]
    ours = [sweep.fit(sweep.setting.label).slope for sweep in main]
    printed = [sweep.setting.printed[0].slope for sweep in main]
    said = averages(kept)
    for slopes in (printed, ours):
        assert f"{signed(np.mean(slopes))} ({signed(min(slopes))} to {signed(max(slopes))})" in said
    assert "| −1.09 (−1.88 to −0.20) | `short` |" in said
    assert "within −1.8 to −1.1. Of ours, 3 of 9 do." in said
    assert averages(Kept({}, {})) == ""


@pytest.mark.parametrize("name", SCANS)
def test_the_stars_of_a_landscape_move_to_smaller_rates_or_stay_as_depth_grows(kept, name) -> None:
    drawn = both(kept.sweeps[SCANS[name].name].results, under(kept, name, "short").results).tuned_rates
    rates = [drawn[size] for size in sorted(drawn)]
    assert len(rates) == 7
    assert rates == sorted(rates, reverse=True)


def test_the_grid_of_every_finished_search_was_timed(kept) -> None:
    finished = [s for name in kept.sweeps for s in kept.protocols(kept.sweeps[name].setting) if s.counts]
    assert len(finished) == 45
    assert all(s.facts["plain_grid_seconds"] > 0 for s in finished)


@pytest.mark.parametrize(("data", "least", "most"), [("cifar", 3, 6), ("imagenet", 1.6, 2.6)])
def test_full_epochs_of_cifar_take_three_to_six_times_the_seconds_and_of_imagenet_about_twice(
    kept, data, least, most
) -> None:
    both = [kept.protocols(sweep.setting) for name, sweep in kept.sweeps.items() if data in name and sweep.counts]
    ratios = [full.facts["sweep_seconds"] / short.facts["sweep_seconds"] for full, *rest in both for short in rest]
    assert len(ratios) >= 4
    assert least < min(ratios) < max(ratios) < most


def test_building_a_large_vit_takes_half_to_four_fifths_of_100_plain_steps(kept) -> None:
    def grid(name: str, protocol: str) -> float:
        return under(kept, name, protocol).facts["plain_grid_seconds"]

    for name, part in (("imagenet-vit", 0.8), ("imagenet-vit-patch-8", 0.46)):
        short = grid(name, "short")
        step = (grid(name, "paper") - short) / (195 - 100)  # both grids have as many runs
        assert 1 - 100 * step / short == pytest.approx(part, abs=0.01)
    assert grid("imagenet-vit", "short") / grid("imagenet-vit-pre-ln", "short") == pytest.approx(1.6, abs=0.05)
    for model in ("cnn", "resnet"):  # of like sizes and steps
        for protocol in ("paper", "short"):
            ratio = grid(f"cifar10-{model}", protocol) / grid(f"cifar100-{model}", protocol)
            assert ratio == pytest.approx(1, abs=0.021)


def test_the_readme_says_how_many_of_those_slopes_are_of_full_epochs(kept) -> None:
    kinds = ("CNNs, SGD", "ResNets, SGD", "transformers, post-LN, SGD", "transformers, pre-LN, SGD")
    named = [sweep for sweep in kept.sweeps.values() if sweep.counts and family(sweep.setting) in kinds]
    full = sum(sweep.protocol == "paper" for sweep in named)
    assert f"{len(named)} sweeps, {full} of them over full epochs" in (ROOT / "README.md").read_text("utf-8")
