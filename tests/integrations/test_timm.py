"""The command line for timm's train.py, and the tables of parameter groups that the commands print."""

from __future__ import annotations

import json
import shlex

import pytest
import yaml
from typer.testing import CliRunner

from depthlr import DepthlrError
from depthlr.cli.app import app
from depthlr.integrations.timm import train_command
from depthlr.models.build import build
from depthlr.transfer.groups import GroupRow, group_multipliers


def test_the_rate_is_absolute() -> None:
    found = train_command("timm/vit_small_patch16_224?depth=24&qkv_bias=False", 1.234e-3, optimizer="adamw", epochs=90)
    expected = "python train.py --model vit_small_patch16_224 --lr 1.23e-3 --model-kwargs depth=24 qkv_bias=False"
    assert found == f"{expected} --opt adamw --epochs 90"
    assert train_command("resnet50", 0.1, weight_decay=5e-5).endswith("--lr 1.00e-1 --weight-decay 5e-05")
    assert train_command("resnet50", 0.1, optimizer="sgd").endswith("--opt momentum --momentum 0")
    with pytest.raises(DepthlrError, match="lr_base is scaled by the batch"):
        train_command("resnet50", 0.1, lr_base=0.1)


def test_transfer_to_a_timm_model_prints_the_command(timm_module) -> None:
    ends = ["--from", "timm/vit_tiny_patch16_224?depth=2", "--to", "timm/vit_tiny_patch16_224?depth=4"]
    done = CliRunner().invoke(app, ["transfer", "--rate", "1e-3", *ends, "--optimizer", "adamw"])
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.stderr.replace("\n ", " ").splitlines() if "train.py" in line]
    words = shlex.split(line)
    assert words[words.index("--lr") + 1] == done.stdout.strip()
    assert words[words.index("--model") + 1] == "vit_tiny_patch16_224"


@pytest.mark.parametrize("options", [[], ["--other-rate", "3e-4"]])
def test_the_groups_of_a_model_as_a_table(options: list[str]) -> None:
    spec = "gpt?blocks=2&width=16"
    arguments = ["groups", spec, "--rate", "1e-2", "--weight-decay", "0.1", *options]
    as_yaml, as_json = (CliRunner().invoke(app, [*arguments, "--format", kind]).stdout for kind in ("yaml", "json"))
    rows = [GroupRow(**entry) for entry in json.loads(as_json)]
    assert [GroupRow(**entry) for entry in yaml.safe_load(as_yaml)] == rows
    if not options:
        assert rows == group_multipliers(build(spec)[0])
    assert "ParamGroupConfig(pattern=" in CliRunner().invoke(app, [*arguments, "--format", "torchtitan"]).stdout
