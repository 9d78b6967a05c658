"""`depthlr sweep` of a user's own model, data and loss: what cannot be trained is one sentence, and leaves no file."""

from __future__ import annotations

import json

import pytest
import typer

from depthlr.cli.sweep import sweep_command
from depthlr.errors import DepthlrError, report_exit
from depthlr.study import read_store

OWN = """
import torch
from torch import nn

def net(layers=1):
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(layers)), nn.Linear(4, 1))

class Named(nn.Module):
    def __init__(self, layers=1):
        super().__init__()
        self.net = net(layers)
    def forward(self, x):
        return {"logits": self.net(x)}

class Odd(Named):
    def forward(self, x):
        return {"logits": "none"} if torch.is_grad_enabled() else super().forward(x)

def data():
    return [(torch.ones(8, 4), torch.zeros(8, 1))]
def labels():
    return [(torch.ones(8, 4), torch.zeros(8, dtype=torch.int64))]
def ids():
    return [(torch.arange(8), torch.zeros(8, 1))]

def squared(output, target):
    return (output - target).square().mean()
def unreduced(output, target):
    return (output - target).square()
def broken(output, target):
    return 1 / 0
def printing(output, target):
    print("a loss that prints", flush=True)
    return squared(output, target)
def exiting(output, target):
    raise SystemExit("enough")
"""

STUDY = """
[model]
spec = "their_sweep:{model}"
vary = "layers"
sizes = [1]
[data]
name = "their_sweep:{data}"
[training]
steps = 2
batch = {batch}
loss = "{loss}"
[search]
points = 3
seeds = 1
"""

app = typer.Typer()
app.command()(report_exit()(sweep_command))


@pytest.fixture
def swept(tmp_path, monkeypatch):
    """Sweep in one process a study that differs from one that trains in so much."""
    (tmp_path / "their_sweep.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0})

    def swept(*options, model="net", data="data", batch=4, loss="their_sweep:squared"):
        (tmp_path / "own.toml").write_text(STUDY.format(model=model, data=data, batch=batch, loss=loss))
        app(["own.toml", *options], standalone_mode=False)
        return read_store(tmp_path / "own.sqlite")

    return swept


@pytest.mark.parametrize(
    ("different", "message"),
    [
        ({"model": "Odd", "loss": "cross_entropy"}, "the model returned dict without a floating-point tensor"),
        ({"loss": "their_sweep:unreduced"}, r"the loss has shape \(4, 1\)"),
        ({"loss": "their_sweep:broken"}, "the loss failed .*ZeroDivisionError"),
        ({"loss": "their_sweep:exiting"}, r"called sys.exit\('enough'\): raise an error there instead"),
        ({"data": "ids"}, r"has inputs of shape \(8,\)"),
        ({"batch": 100}, "A batch of 100 cannot be drawn"),
    ],
)
def test_what_cannot_be_trained_is_a_sentence_and_leaves_no_file(swept, tmp_path, different, message):
    with pytest.raises(DepthlrError, match=message) as caught:
        swept(**different)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "own.sqlite").exists()
    assert swept().records


def test_a_model_that_returns_a_mapping_is_swept_and_its_new_weights_are_told(swept, capsys):
    assert swept(model="Named", data="labels", loss="cross_entropy").records
    assert 'weights are drawn anew by init_; training.variance = "own" keeps' in capsys.readouterr().err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_a_users_code_prints_goes_to_standard_error(swept, capfd, workers):
    assert swept("--json", "--workers", workers, loss="their_sweep:printing").records
    found = capfd.readouterr()
    assert json.loads(found.out)["cells"] == 3
    assert "a loss that prints" in found.err


def test_the_number_of_workers_is_an_option(swept, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "depthlr.training.local.Workers", lambda make_task, workers, limits: asked.append(workers) or Refused()
    )
    with pytest.raises(DepthlrError, match="refused"):
        swept("--workers", "3")
    assert asked == [3]
    assert swept("--workers", "1").records


class Refused:
    """A pool that trains nothing."""

    def train_together(self, cells):
        raise DepthlrError("refused")

    def close(self):
        pass
