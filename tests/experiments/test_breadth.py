"""The table of architectures: every count is what the convention gives by hand, or is flagged."""

from __future__ import annotations

import json
import shutil

import pytest

from experiments.breadth import (
    DEPTH_COLUMNS,
    DEPTHS,
    ENERGIES,
    ENERGY_COLUMNS,
    PAGE,
    RESULTS,
    depth_row,
    energy_row,
    write_page,
)
from experiments.tables import read_table


def test_every_architecture_is_counted_right_or_flagged() -> None:
    rows = read_table(RESULTS / "depth.csv", DEPTH_COLUMNS)
    assert [row["model"] for row in rows] == list(DEPTHS)
    for row in rows:
        assert row["verdict"] in ("right", "out of scope"), row
        assert row["notes"] or row["verdict"] == "right"
    assert sum(row["model"].startswith("timm/") for row in rows) >= 60
    assert sum(row["model"].startswith("hf/") for row in rows) >= 25


def test_energies_are_measured_with_both_optimizers() -> None:
    rows = read_table(RESULTS / "energy.csv", ENERGY_COLUMNS)
    assert [(row["model"], row["optimizer"]) for row in rows] == [(m, o) for m in ENERGIES for o in ("sgd", "adamw")]
    assert len(ENERGIES) >= 15
    assert all(float(row["readout_energy"]) > 0 for row in rows)
    assert {row["model"] for row in rows if not row["rate"]} == {"timm/mixer_s16_224?img_size=64"}
    by_differences = {row["model"] for row in rows if row["way"] == "finite differences"}
    assert len(by_differences) == 2


def test_the_page_is_made_from_the_tables(tmp_path) -> None:
    copy = tmp_path / PAGE.name
    shutil.copy(PAGE, copy)
    write_page(copy)
    assert copy.read_text("utf-8") == PAGE.read_text("utf-8")


@pytest.mark.parametrize("model", ["timm/resnet18", "timm/densenet121", "hf/bloom"])
def test_a_row_of_depth_can_be_made_again(model: str, timm_module) -> None:
    (kept,) = [row for row in read_table(RESULTS / "depth.csv", DEPTH_COLUMNS) if row["model"] == model]
    made = depth_row(model, DEPTHS[model])
    for name in ("expected", "counted", "verdict", "notes"):
        assert kept[name] == ("" if made[name] is None else str(made[name]))


@pytest.mark.parametrize("model", ["experiments.breadth:bags", "hf/gpt2?n_layer=3&n_embd=32&n_head=2&vocab_size=64"])
def test_a_row_of_energy_can_be_made_again(model: str) -> None:
    rows = read_table(RESULTS / "energy.csv", ENERGY_COLUMNS)
    (kept,) = [row for row in rows if (row["model"], row["optimizer"]) == (model, "adamw")]
    made = energy_row(model, ENERGIES[model], "adamw")
    assert made["mean_energy"] == pytest.approx(float(kept["mean_energy"]), rel=1e-2)
    assert made["way"] == kept["way"]


def test_the_versions_are_kept() -> None:
    facts = json.loads((RESULTS / "facts.json").read_text())
    assert set(facts["packages"]) == {"torch", "timm", "transformers"}
