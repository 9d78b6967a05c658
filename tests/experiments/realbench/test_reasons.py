"""Hypotheses are judged by the numbers that they named."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.experiments.realbench.tiny import write_facts, write_rows, write_sweep

from experiments.realbench.dynamics import DYNAMICS
from experiments.realbench.kept import COLUMNS, read_rows
from experiments.realbench.plan import DYNAMICS_OF, WHY
from experiments.realbench.reasons import (
    COMPARED,
    HYPOTHESES,
    LLAMA,
    MUON,
    RESNET,
    Unfinished,
    changes_table,
    dynamics_table,
    hypotheses_table,
)
from experiments.realbench.recipes import recipe_named

BASE = -0.2  # the change of every recipe, over all sizes and over any two


def write_all(tables: Path, difference: float, sharpness: float = 0.2, muon: float = 0.0, adamw: float = -0.3) -> None:
    """Variants whose change differs from their recipe's by this, and dynamics whose quantities change by these."""
    for name in (RESNET, MUON, LLAMA):
        sizes = recipe_named(name).study.model.sizes
        # The first step of sizes has the whole change, so that any two sizes from the first on show it.
        write_sweep(tables, name, {size: -2.0 + BASE * (size > sizes[0]) for size in sizes})
    for variant in WHY:
        low, high = recipe_named(variant).study.model.sizes
        write_sweep(tables, variant, {low: -2.0, high: -2.0 + BASE + difference})
    for name in DYNAMICS_OF:
        recipe = recipe_named(name)
        low, *_, high = recipe.study.model.sizes
        output = {MUON: muon, LLAMA: adamw}.get(name, 0.0)
        rows = [
            {"size": size, "seed": 0, "step": step}
            | dict.fromkeys(DYNAMICS.values, 1.0)
            | {"sharpness": 10 ** (sharpness * (size == high)), "output_change": 10 ** (output * (size == high))}
            for size in (low, high)
            for step in (0, 30, 60, 119, 600, 900)
        ]
        path = tables / "dynamics" / f"{recipe.name}.csv"
        write_rows(path, rows, (*DYNAMICS.keys, *DYNAMICS.values, "seconds"))
        write_facts(path, recipe.study.digest, len(rows))


def refuted(tables: Path) -> set[str]:
    return {one.name for one in HYPOTHESES if one.look(tables)[1]}


def test_hypotheses_are_written_down_before_anything_is_run(tmp_path):
    assert hypotheses_table(tmp_path).count("| not run |") == len(HYPOTHESES)
    assert changes_table(tmp_path) == dynamics_table(tmp_path) == ""
    for one in HYPOTHESES:
        with pytest.raises(Unfinished):
            one.look(tmp_path)


def test_variants_like_their_recipe_refute_that_their_change_matters(tmp_path):
    write_all(tmp_path, difference=0.02)
    assert refuted(tmp_path) == {"weight decay", "last gain 0"}


def test_variants_unlike_their_recipe_refute_that_their_change_does_not_matter(tmp_path):
    write_all(tmp_path, difference=-0.15)
    assert refuted(tmp_path) == {"momentum", "batch statistics", "Muon's size"}


@pytest.mark.parametrize(("sharpness", "wrong"), [(0.2, False), (0.25, False), (0.05, True), (-0.2, True)])
def test_the_rate_follows_sharpness_or_not(tmp_path, sharpness, wrong):
    write_all(tmp_path, difference=0.075, sharpness=sharpness)
    assert ("sharpness" in refuted(tmp_path)) == wrong


@pytest.mark.parametrize(("muon", "adamw", "wrong"), [(0.1, -0.3, False), (-0.3, 0.1, True), (0.2, 0.2, True)])
def test_muon_moves_outputs_more_evenly_or_not(tmp_path, muon, adamw, wrong):
    write_all(tmp_path, difference=0.075, muon=muon, adamw=adamw)
    assert ("Muon" in refuted(tmp_path)) == wrong


def test_a_run_that_diverged_does_not_speak_for_a_hypothesis(tmp_path):
    write_all(tmp_path, difference=0.075, sharpness=math.nan, muon=math.nan)
    assert refuted(tmp_path) == {"sharpness", "Muon"}


def test_the_tables_show_every_variant_and_every_run(tmp_path):
    write_all(tmp_path, difference=0.02, sharpness=0.3)
    text = changes_table(tmp_path)
    assert text.count("| -0.18 | -0.20 | +0.02 |") == len(WHY)
    assert "edge" not in text
    table = tmp_path / f"{recipe_named(WHY[0]).name}.csv"
    rows = [dict(row) for cell, row in read_rows(table).items() if cell.size == 1 or cell.rate > 0.05]
    write_rows(table, rows, COLUMNS)
    assert changes_table(tmp_path).count(" (edge) |") == 1
    text = dynamics_table(tmp_path)
    assert len(text.splitlines()) == 2 + 2 * len(DYNAMICS_OF)
    assert f"| {RESNET} | warm-up | -0.20 |" in text
    assert all(column.replace("_", " ") in text for column in COMPARED)
    assert text.count("+0.30") == 2 * len(DYNAMICS_OF)
    assert "not run" not in hypotheses_table(tmp_path)
    (tmp_path / "dynamics" / f"{MUON}.json").unlink()
    assert dynamics_table(tmp_path) == ""
    assert hypotheses_table(tmp_path).count("| not run |") == 1
