"""The paper's numbers as typed here agree with what the paper says of them, and its slips are slips."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest

from depthlr.law.rules import transfer_by_power
from experiments.paper.recipes import (
    AUDIO_RATES,
    PRINTED_MEDIANS,
    PRINTED_RATE,
    PRINTED_TRANSFERS,
    RECIPES,
    SOURCE,
    VIT_384_EPOCH_3,
)
from experiments.paper.settings import AnySetting


def slope(setting: AnySetting, where: str) -> float:
    return next(printed.slope for printed in setting.printed if printed.where == where)


def named(name: str) -> AnySetting:
    return next(s for recipe in RECIPES.values() for s in recipe.settings if s.name == name)


def test_the_nine_main_slopes_average_as_printed() -> None:
    nine = [s for s in RECIPES["main"].settings if s.name != "imagenet-vit-patch-8"]
    slopes = [slope(setting, "tab:main-results") for setting in nine]
    assert len(slopes) == 9
    assert round(fmean(slopes), 2) == -1.38
    assert (max(slopes), min(slopes)) == (-1.178, -1.567)


def test_the_nine_ablation_slopes_average_otherwise_than_printed() -> None:
    nine = [s for s in RECIPES["ablation"].settings if s.name != "cnn-gelu-he"]
    assert round(fmean(slope(setting, "tab:ablation-all") for setting in nine), 3) == -1.356


def test_the_zero_shot_table_is_the_law_on_two_units_a_block_and_two() -> None:
    for row in PRINTED_TRANSFERS:
        scaled = transfer_by_power(PRINTED_RATE, 2 * SOURCE + 2, 2 * row.blocks + 2)
        assert scaled == pytest.approx(row.scaled, rel=5e-4)
        assert abs(math.log10(PRINTED_RATE / row.oracle)) == pytest.approx(row.raw_error, abs=6e-4)
        assert abs(math.log10(row.scaled / row.oracle)) == pytest.approx(row.scaled_error, abs=6e-4)
    assert PRINTED_MEDIANS == {"copy": 0.314, "law": 0.057}


def test_the_audio_rates_have_the_printed_slope_and_lie_on_a_coarse_grid() -> None:
    x, y = np.log10(list(AUDIO_RATES)), np.log10(list(AUDIO_RATES.values()))
    fitted, _ = np.polyfit(x, y, 1)
    assert fitted == pytest.approx(-1.578, abs=2e-3)
    assert np.corrcoef(x, y)[0, 1] ** 2 == pytest.approx(0.891, abs=2e-3)
    steps = -np.diff(np.unique(y)[::-1])
    assert steps == pytest.approx([0.42, 0.42], abs=5e-3)


def test_batch_norm_and_dropout_move_the_slope_away_from_the_law() -> None:
    baseline, norm, dropout = (
        abs(slope(named(name), "tab:ablation-all") + 1.5)
        for name in ("cifar10-resnet", "resnet-batch-norm", "resnet-dropout")
    )
    assert baseline < min(norm, dropout)


def test_one_cnn_is_printed_with_three_slopes() -> None:
    cnn = named("cifar10-cnn")
    places = ("tab:main-results", "fig:cnn-padding", "fig:kernel_size_cifar10_relu")
    assert [slope(cnn, where) for where in places] == [-1.339, -1.5, -1.74]


def test_the_zero_shot_rate_is_not_on_the_grid_that_is_stated() -> None:
    places = [
        79 * (math.log10(rate) + 5) / 5 for rate in (PRINTED_RATE, VIT_384_EPOCH_3.study("paper").search.rates[37])
    ]
    assert abs(places[0] - round(places[0])) > 0.2
    assert places[1] == pytest.approx(37), "where a rate of the grid would lie"
