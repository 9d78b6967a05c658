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
from depthlr.models.transformer import GPT
from depthlr.transfer.groups import GroupRow, group_multipliers, table_text

MODELS = ["gpt?blocks=3&width=16", "vit?blocks=2&width=18&heads=3", "resnet?blocks=2&width=4", "cnn?layers=3&width=4"]


def looked_up(rows: list[GroupRow], name: str) -> GroupRow:
    return next(row for row in rows if re.search(row.pattern, name))


def check_table(model: nn.Module, groups: list[dict]) -> None:
    rows = group_multipliers(model, groups)
    rate, decay = (max(group[key] for group in groups) for key in ("lr", "weight_decay"))
    of = {id(p): group for group in groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        row, group = looked_up(rows, name), of[id(parameter)]
        assert rate * row.lr_mult == pytest.approx(group["lr"])
        assert decay * row.wd_mult == pytest.approx(group["weight_decay"])
        assert row.optimizer == {True: "Muon", False: "AdamW", None: ""}[group.get("use_muon")]


@pytest.mark.parametrize("spec", [*MODELS, "hf/gpt2?n_layer=2&n_embd=8&n_head=2&vocab_size=20"])
def test_the_first_pattern_that_matches_gives_the_groups_values(spec: str) -> None:
    model, _ = build(spec)
    check_table(model, param_groups(model, 3e-3, weight_decay=0.1))
    check_table(model, param_groups(model, 0.02, weight_decay=0.1, muon=True, other_rate=3e-4))


def test_unlike_layers_of_a_list_are_told_apart() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 3))
    check_table(model, param_groups(model, 0.1, weight_decay=0.5))


def test_a_table_is_as_short_for_a_deep_model() -> None:
    shallow, deep = (group_multipliers(build(f"gpt?blocks={blocks}&width=16")[0]) for blocks in (2, 12))
    assert shallow == deep


def test_an_optimizer_with_rates_of_its_own() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    groups = [{"params": model[0].parameters(), "lr": 1.0}, {"params": model[1].parameters()}]
    optimizer = torch.optim.AdamW(groups, lr=0.5)
    assert looked_up(group_multipliers(model, optimizer), "1.bias").lr_mult == 0.5
    assert looked_up(group_multipliers(model, [optimizer]), "0.bias").lr_mult == 1
    assert {row.optimizer for row in group_multipliers(model, optimizer)} == {"AdamW"}
    with pytest.raises(DepthlrError, match="the groups hold none of the model's parameters"):
        group_multipliers(nn.Linear(2, 2), optimizer)


def own_optimizers(model: nn.Module, rate: float = 0.02, decay: float = 0.3) -> list[torch.optim.Optimizer]:
    """As a user writes them: Muon takes the matrices of the blocks, AdamW the rest."""
    named = dict(model.named_parameters())
    hidden = [p for name, p in named.items() if name.startswith("blocks") and p.dim() == 2]
    rest = [p for name, p in named.items() if not (name.startswith("blocks") and p.dim() == 2)]
    groups = [{"params": [p for p in rest if p.dim() == 2]}, {"params": [p for p in rest if p.dim() != 2]}]
    groups[1]["weight_decay"] = 0.0
    return [
        torch.optim.Muon(hidden, lr=rate, weight_decay=decay),
        torch.optim.AdamW(groups, lr=3 * rate / 200, weight_decay=0.1),
    ]


def tied_gpt() -> GPT:
    return GPT(blocks=2, width=8, heads=2, vocabulary=7, context=4, tied=True)


def test_ones_own_optimizers_are_named_and_rounded() -> None:
    model = tied_gpt()
    rows = group_multipliers(model, own_optimizers(model))
    assert {row.optimizer for row in rows} == {"Muon", "AdamW"}
    assert {row.lr_mult for row in rows} == {1.0, 0.015}
    assert {row.wd_mult for row in rows} == {1.0, 0.333333333333, 0.0}
    assert table_text(rows, "torchtitan", 0.02, 0.3).count('"Muon"') == 3
    assert [GroupRow(**entry) for entry in yaml.safe_load(table_text(rows, "yaml"))] == rows
    assert "'lr': 0.0003, " in table_text(rows, "torchtitan", 0.02, 0.3)


def test_optimizers_that_hold_a_part_of_the_model_are_refused() -> None:
    model = tied_gpt()
    muon, adamw = own_optimizers(model)
    with pytest.raises(DepthlrError, match=r"no group holds positions, .* and 15 more: give every optimizer"):
        group_multipliers(model, muon)
    for parameter in adamw.param_groups[0]["params"] + adamw.param_groups[1]["params"]:
        parameter.requires_grad_(False)
    assert {row.optimizer for row in group_multipliers(model, muon)} == {"Muon"}


def test_every_pattern_matches_a_name_that_no_earlier_one_took() -> None:
    """torchtitan refuses others. It names a tied parameter once."""
    model = tied_gpt()
    left = {name for name, _ in model.named_parameters()}
    for row in group_multipliers(model, own_optimizers(model)):
        taken = {name for name in left if re.search(row.pattern, name)}
        assert taken, row.pattern
        left -= taken
    assert not left


@pytest.mark.parametrize("step", [0, 7])
def test_a_schedule_changes_no_multiplier(step: int) -> None:
    model = tied_gpt()
    optimizers = own_optimizers(model)
    expected = group_multipliers(model, optimizers)
    for one, slope in zip(optimizers, (10, 20), strict=True):
        scheduler = torch.optim.lr_scheduler.LambdaLR(one, lambda t, slope=slope: t / slope)
        for _ in range(step):
            one.step()
            scheduler.step()
    assert group_multipliers(model, optimizers) == expected


def test_rates_that_are_all_zero_have_no_multipliers() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(DepthlrError, match="the rate of every group is 0"):
        group_multipliers(model, torch.optim.SGD(model.parameters(), lr=0.0))


def test_timms_scale_of_a_layer_counts() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    groups = [
        {"params": model[0].parameters(), "lr": 0.1, "lr_scale": 0.75},
        {"params": model[1].parameters(), "lr": 0.1, "lr_scale": 1.0},
    ]
    assert looked_up(group_multipliers(model, torch.optim.SGD(groups)), "0.bias").lr_mult == 0.75


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
