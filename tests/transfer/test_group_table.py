"""A table of patterns gives every parameter what its group gives it."""

from __future__ import annotations

import json
import re

import pytest
import torch
import yaml
from torch import nn

from depthlr import DepthlrError, param_groups
from depthlr.models.build import build
from depthlr.transfer.groups import GroupRow, group_multipliers, table_text

MODELS = ["gpt?blocks=3&width=16", "vit?blocks=2&width=18&heads=3", "resnet?blocks=2&width=4", "cnn?layers=3&width=4"]


def looked_up(rows: list[GroupRow], name: str) -> GroupRow:
    return next(row for row in rows if re.search(row.pattern, name))


def check_table(model: nn.Module, groups: list[dict], rate: float, decay: float) -> None:
    rows = group_multipliers(model, groups)
    of = {id(p): group for group in groups for p in group["params"]}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        row, group = looked_up(rows, name), of[id(parameter)]
        assert rate * row.lr_mult == pytest.approx(group["lr"])
        assert decay * row.wd_mult == pytest.approx(group["weight_decay"])
        assert row.optimizer == {True: "Muon", False: "AdamW", None: ""}[group.get("use_muon")]


@pytest.mark.parametrize("spec", [*MODELS, "hf/gpt2?n_layer=2&n_embd=8&n_head=2&vocab_size=20"])
def test_the_first_pattern_that_matches_gives_the_groups_values(spec: str) -> None:
    model, _ = build(spec)
    check_table(model, param_groups(model, 3e-3, weight_decay=0.1), 3e-3, 0.1)
    check_table(model, param_groups(model, 0.02, weight_decay=0.1, muon=True, other_rate=3e-4), 0.02, 0.1)


def test_unlike_layers_of_a_list_are_told_apart() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 3))
    check_table(model, param_groups(model, 0.1, weight_decay=0.5), 0.1, 0.5)


def test_a_table_is_as_short_for_a_deep_model() -> None:
    shallow, deep = (group_multipliers(build(f"gpt?blocks={blocks}&width=16")[0]) for blocks in (2, 12))
    assert shallow == deep


def test_an_optimizer_with_rates_of_its_own() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    groups = [{"params": model[0].parameters(), "lr": 1.0}, {"params": model[1].parameters()}]
    optimizer = torch.optim.AdamW(groups, lr=0.5)
    assert looked_up(group_multipliers(model, optimizer), "1.bias").lr_mult == 0.5
    assert looked_up(group_multipliers(model, [optimizer]), "0.bias").lr_mult == 1
    with pytest.raises(DepthlrError, match="the groups hold none of the model's parameters"):
        group_multipliers(nn.Linear(2, 2), optimizer)


def test_json_and_yaml_say_the_same() -> None:
    model, _ = build(MODELS[0])
    rows = group_multipliers(model, param_groups(model, 1.0, weight_decay=1.0, muon=True, other_rate=0.5))
    as_json = json.loads(table_text(rows, "json"))
    assert as_json == yaml.safe_load(table_text(rows, "yaml"))
    assert [GroupRow(**entry) for entry in as_json] == rows
    with pytest.raises(DepthlrError, match="There is no format 'xml': choose one of json, yaml, torchtitan"):
        table_text(rows, "xml")


def test_torchtitan_gets_absolute_values() -> None:
    rows = [GroupRow(r"^layers\.\d+\.norm\.weight$", 1.0, 0.0), GroupRow(".*", 0.5, 1.0)]
    groups: list[dict] = []
    code = table_text(rows, "torchtitan", 0.2, 0.1).removeprefix("param_groups=")
    groups = eval(code, {"ParamGroupConfig": dict})
    assert groups == [
        {
            "pattern": r"^layers\.\d+\.norm\.weight$",
            "optimizer_name": "AdamW",
            "optimizer_kwargs": {"lr": 0.2, "weight_decay": 0.0},
        },
        {"pattern": ".*", "optimizer_name": "AdamW", "optimizer_kwargs": {"lr": 0.1, "weight_decay": 0.1}},
    ]
