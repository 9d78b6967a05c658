"""`suggest`, `transfer`, `check` and `measure` of a user's own model, data and loss."""

from __future__ import annotations

import json

import pytest
import torch

from depthlr import suggest_rate, transfer_rate
from depthlr.data import batch_order, load
from depthlr.python_name import python_callable

OWN = """
import torch
from torch import nn

def net(layers=1):
    hidden = [part for _ in range(int(layers)) for part in (nn.Linear(8, 8), nn.Tanh())]
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), *hidden, nn.Linear(8, 1))

def data(count=40):
    generator = torch.Generator().manual_seed(0)
    for _ in range(int(count)):
        x = torch.randn(8, 4, generator=generator)
        yield x, x.sum(1, keepdim=True).sin()

def labels():
    for x, y in data():
        yield x, (y.squeeze(1) > 0).long()

def classifier(layers=1):
    return nn.Sequential(*net(layers)[:-1], nn.Linear(8, 2))

def huber(output, target):
    return nn.functional.huber_loss(output, target)
def unreduced(output, target):
    return (output - target).square()
def exiting(output, target):
    raise SystemExit(3)
"""

SUGGEST = ["suggest", "their_task:net", "--seeds", "2"]
TRANSFER = ["transfer", "--rate", "0.1", "--from", "their_task:net?layers=1", "--to", "their_task:net?layers=4"]
CHECK = ["check", "their_task:net", "--vary", "layers", "--sizes", "1,3", "--seeds", "2"]
MEASURE = ["measure", "their_task:net", "--seeds", "2"]
VERBS = [SUGGEST, [*TRANSFER, "--rule", "measured"], [*TRANSFER, "--rule", "am-mup"], CHECK, MEASURE]
REGRESSION = ["--data", "their_task:data", "--loss", "their_task:huber", "--batch", "16"]


@pytest.fixture
def run(run, monkeypatch, tmp_path):
    (tmp_path / "their_task.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return run


def named(arguments: list[str]) -> str:
    return f"{arguments[0]} {arguments[-1]}"


@pytest.mark.parametrize("arguments", VERBS, ids=named)
def test_every_verb_that_measures_takes_regression(run, arguments) -> None:
    code, out, err = run(*arguments, *REGRESSION, "--own-init", "--json")
    assert code in (0, 1), err
    assert json.loads(out)


def batches_of(size: int, seeds: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Seventeen for every seed, in an order that the seed draws."""
    examples = load("their_task:data")
    count = min(17, len(examples) // size)
    return [examples.batch(i) for seed in range(seeds) for i in batch_order(len(examples), size, count, seed)]


def test_what_they_measure_is_what_python_measures(run) -> None:
    net, huber = python_callable("their_task:net"), python_callable("their_task:huber")
    found = json.loads(run(*SUGGEST, *REGRESSION, "--own-init", "--json")[1])
    assert found["rate"] == pytest.approx(suggest_rate(net, batches_of(16, 2), huber, seeds=2).rate, rel=1e-6)
    assert (found["data"], found["loss"]) == ("their_task:data", "their_task:huber")
    found = json.loads(run(*TRANSFER, "--rule", "measured", *REGRESSION, "--own-init", "--seeds", "2", "--json")[1])
    expected = transfer_rate(0.1, lambda: net(1), lambda: net(4), batches=batches_of(16, 2), loss_fn=huber, seeds=2)
    assert found["rate"] == pytest.approx(expected.rate, rel=1e-6)


def test_classes_of_ones_own_need_no_loss_and_data_take_options(run) -> None:
    model = ["suggest", "their_task:classifier", "--seeds", "1"]
    assert run(*model, "--data", "their_task:labels", "--batch", "16")[0] == 0
    code, _, err = run(*SUGGEST, "--data", "their_task:data?count=2", "--loss", "their_task:huber", "--batch", "17")
    assert (code, "A batch of 17 cannot be drawn from 16 examples" in err) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "their_task:data"], "numbers to regress on, and cross-entropy takes classes"),
        (["--data", "their_task:data", "--loss", "mse"], "--loss mse: write cross_entropy, or your own as"),
        (["--data", "their_task:data", "--loss", "their_task:missing"], "has no attribute 'missing'"),
        (["--data", "their_task:data", "--loss", "their_task:unreduced"], "must return one number"),
        (["--data", "their_task:data", "--loss", "their_task:exiting"], "called sys.exit(3)"),
        (["--data", "their_task:missing", "--loss", "their_task:huber"], "has no attribute 'missing'"),
        (["--data", "their_task:huber"], "missing 2 required positional arguments"),
        (["--data", "mnist"], "There is no data set 'mnist'"),
        (["--data", "images"], "name it, as in depthlr data images --folder FOLDER"),
        (["--data", "their_task:data", "--loss", "their_task:huber", "--input", "4"], "contradict each other"),
        (["--folder", "here"], "random inputs lie nowhere"),
        (["--batch", "0"], "--batch is 0: give a whole number of at least 1"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_what_cannot_be_measured_is_one_sentence(run, options, message) -> None:
    for arguments in (SUGGEST, MEASURE, CHECK, [*TRANSFER, "--rule", "measured"]):
        code, out, err = run(*arguments, *options)
        assert (code, out) == (2, "")
        assert err.startswith("depthlr: ")
        assert message in err
        assert err.count("\n") == 1


def test_a_sweep_takes_the_same_options(run) -> None:
    arguments = ["sweep", "--model", "their_task:net", "--vary", "layers", "--sizes", "1,2", "--steps", "2"]
    code, out, err = run(*arguments, *REGRESSION, "--points", "3", "--seeds", "1", "--json")
    assert code == 0, err
    assert json.loads(out)["study"]["training"]["loss"] == "their_task:huber"
