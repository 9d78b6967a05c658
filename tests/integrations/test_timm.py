"""The command line for timm's train.py, and the tables of parameter groups that the commands print."""

from __future__ import annotations

import argparse
import ast
import json
import shlex
from typing import Any

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
    assert train_command("resnet50", 0.1, optimizer="sgd", momentum=0.9).endswith("--opt momentum --momentum 0.9")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": 3}, "lr is the rate, the second argument: leave lr= out"),
        ({"lr_base": 0.1}, "lr_base is scaled by the batch, and the carried rate is absolute: leave lr_base= out"),
        ({"opt": "adamw"}, "opt is given as optimizer=: leave opt= out"),
        ({"model_kwargs": "depth=12"}, "model_kwargs is 'depth=12': give a mapping"),
    ],
)
def test_what_would_be_said_twice_is_refused(options, message: str) -> None:
    with pytest.raises(DepthlrError, match=message):
        train_command("resnet50", 0.1, **options)


class ModelArguments(argparse.Action):
    """As timm.utils.ParseKwargs reads `--model-kwargs`."""

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        found = {}
        for value in values:
            key, text = value.split("=")
            try:
                found[key] = ast.literal_eval(text)
            except ValueError:
                found[key] = text
        setattr(namespace, self.dest, found)


def read(command: str) -> dict[str, Any]:
    """What timm's train.py reads, of the options that the tests write."""
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    for option, kind in {"model": str, "lr": float, "img-size": int, "in-chans": int, "num-classes": int}.items():
        parser.add_argument(f"--{option}", type=kind)
    parser.add_argument("--opt-betas", type=float, nargs="+")
    parser.add_argument("--input-size", type=int, nargs=3)
    parser.add_argument("--model-kwargs", nargs="*", action=ModelArguments)
    for option in ("amp", "no-aug", "clip-grad"):
        parser.add_argument(f"--{option}", action="store_true")
    python, script, *words = shlex.split(command)
    assert (python, script) == ("python", "train.py")
    return vars(parser.parse_args(words))


def test_train_py_reads_what_was_given() -> None:
    options = {"amp": True, "no_aug": False, "clip_grad": None, "opt_betas": (0.9, 0.95)}
    found = read(train_command("resnet50", 0.1, **options))
    assert found == {"model": "resnet50", "lr": 0.1, "amp": True, "opt_betas": [0.9, 0.95]}


def test_arguments_of_the_model_are_merged_and_go_where_train_py_takes_them() -> None:
    text = "timm/vit?depths=3,9&act=gelu&bias=false&img_size=64&in_chans=1&num_classes=10"
    found = read(train_command(text, 0.1, model_kwargs={"depth": 12}))
    arguments = {"depths": (3, 9), "act": "gelu", "bias": False, "img_size": 64, "depth": 12}
    sizes = {"img_size": 64, "in_chans": 1, "num_classes": 10}
    assert found == {"model": "vit", "lr": 0.1, "model_kwargs": arguments, **sizes}
    assert read(train_command("vit?img_size=64,32", 0.1))["input_size"] == [3, 64, 32]


def test_the_models_that_train_py_makes_are_those_that_are_named(timm_module) -> None:
    arguments = read(train_command("test_vit?img_size=32&depth=2", 0.1))["model_kwargs"]
    made = timm_module.create_model("test_vit", in_chans=3, num_classes=None, **arguments)
    assert [p.shape for p in made.parameters()] == [
        p.shape for p in build("timm/test_vit?img_size=32&depth=2")[0].parameters()
    ]


def test_transfer_to_a_timm_model_prints_the_command(timm_module) -> None:
    ends = ["--from", "timm/vit_tiny_patch16_224?depth=2", "--to", "timm/vit_tiny_patch16_224?depth=4"]
    done = CliRunner().invoke(app, ["transfer", "--rate", "1e-3", *ends, "--optimizer", "adamw"])
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.stderr.replace("\n ", " ").splitlines() if "train.py" in line]
    words = shlex.split(line)
    assert words[words.index("--lr") + 1] == done.stdout.strip()
    assert words[words.index("--model") + 1] == "vit_tiny_patch16_224"
    assert "--opt adamw" in line
    assert "all other options of the small run" in done.stderr
    done = CliRunner().invoke(app, ["transfer", "--rate", "1e-3", *ends, "--json"])
    assert json.loads(done.stdout)["timm"].startswith("python train.py --model vit_tiny_patch16_224 --lr ")
    assert "--opt" not in done.stdout


def test_a_rule_that_measures_takes_the_librarys_own_initialization(timm_module) -> None:
    ends = ["--from", "timm/test_vit?img_size=32&depth=1", "--to", "timm/test_vit?img_size=32&depth=2"]
    measured = ["transfer", "--rate", "1e-3", *ends, "--rule", "measured", "--seeds", "1", "--batch", "2", "--json"]
    done, own = (CliRunner().invoke(app, [*measured, *more]) for more in ([], ["--own-init"]))
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == json.loads(own.stdout)
    assert "init_" not in done.stderr


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
