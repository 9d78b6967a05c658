"""From a study to what a runner trains."""

import pickle
from functools import partial

import numpy as np
import pytest
import torch

from depthlr.data import load
from depthlr.errors import DepthlrError
from depthlr.models.build import build
from depthlr.study import Data, Models, Study, Training, depths_of, sweep, task_at
from depthlr.study.description import Search
from depthlr.training import BySize, SerialRunner
from depthlr.training.capturable import CapturableRun, draw_start
from depthlr.training.cell import Cell
from experiments.plain_loop import train_plainly

DIGITS = load("digits")


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_a_seeds_initialization_depends_on_neither_the_model_nor_what_ran_before():
    study = Study("s", Models("resnet?width=4", "blocks", (2, 3)), Training(steps=3))
    task, again = task_at(study, 3, DIGITS), task_at(study, 3, DIGITS)
    one, two = task.build(), again.build()
    task.initialize(one, 0)
    first = weights(one)
    task.initialize(one, 1)
    assert not torch.equal(weights(one), first)
    again.initialize(two, 1)
    assert torch.equal(weights(one), weights(two))
    task.initialize(one, 0)
    assert torch.equal(weights(one), first)


def test_own_weights_are_those_that_the_builder_draws_under_the_seed():
    study = Study("s", Models("mlp?width=4", "layers", (2, 3)), Training(steps=3, variance="own"))
    task = task_at(study, 3, DIGITS)
    model = task.build()
    for seed in (3, 4, 3):
        task.initialize(model, seed)
        torch.manual_seed(seed)
        assert torch.equal(weights(model), weights(build("mlp?width=4&layers=3", input="1x8x8")[0]))


def test_the_making_of_tasks_can_be_sent_to_another_process():
    study = Study("s", Models("mlp?width=4", "layers", (2, 3)), Training(steps=3))
    make_task = partial(task_at, study, examples=DIGITS)
    sent = pickle.loads(pickle.dumps(make_task))
    here, there = make_task(3), sent(3)
    one, two = here.build(), there.build()
    here.initialize(one, 4)
    there.initialize(two, 4)
    assert torch.equal(weights(one), weights(two))
    assert torch.equal(here.order(4), there.order(4))


def test_parameters_that_keep_their_builders_values_are_drawn_from_the_seed_too(tmp_path, monkeypatch):
    (tmp_path / "their_scale.py").write_text(
        "import torch\nfrom torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, layers=1):\n"
        "        super().__init__()\n"
        "        self.odd = nn.Parameter(torch.rand(64))\n"
        "        self.net = nn.Sequential(*(nn.Linear(64, 64) for _ in range(layers)), nn.Linear(64, 10))\n"
        "    def forward(self, x):\n"
        "        return self.net(x.flatten(1) * self.odd)\n"
    )
    monkeypatch.chdir(tmp_path)
    study = Study("s", Models("their_scale:Net", "layers", (1, 2)), Training(steps=3))
    task = task_at(study, 1, DIGITS)
    one, two = task.build(), task.build()
    torch.manual_seed(5)
    task.initialize(one, 0)
    torch.manual_seed(6)
    task.initialize(two, 0)
    assert torch.equal(weights(one), weights(two))


THEIR_STATE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, layers=1):
        super().__init__()
        self.register_buffer("scale", torch.randn(64))
        self.shift = torch.randn(64)
        self.norm = nn.BatchNorm1d(64, momentum=0.5)
        self.net = nn.Sequential(*(nn.Linear(64, 64) for _ in range(layers)), nn.Linear(64, 10))
        self.count = 0

    def forward(self, x):
        self.count += 1
        self.shift = self.shift * 0.9
        seen = self.norm(x.flatten(1) * self.scale + self.shift) + self.norm.running_mean
        return self.net(seen) / self.count
"""


@pytest.fixture
def their_state(tmp_path, monkeypatch):
    (tmp_path / "their_state.py").write_text(THEIR_STATE)
    monkeypatch.chdir(tmp_path)
    return Study("s", Models("their_state:Net", "layers", (1, 2)), Training(steps=3, batch=16))


def test_buffers_are_drawn_from_the_seed_as_weights_are(their_state):
    drawn = []
    for unseeded, seed in ((5, 0), (6, 0), (6, 1)):  # two processes of one sweep, and another seed
        torch.manual_seed(unseeded)
        task = task_at(their_state, 1, DIGITS)
        model = task.build()
        task.initialize(model, seed)
        drawn.append(model)
    assert torch.equal(drawn[0].scale, drawn[1].scale)
    assert torch.equal(drawn[0].shift, drawn[1].shift)
    assert torch.equal(weights(drawn[0]), weights(drawn[1]))
    assert not torch.equal(drawn[1].scale, drawn[2].scale)


def test_the_captured_step_starts_from_the_seeds_buffers_too(their_state):
    task, cpu = task_at(their_state, 1, DIGITS), torch.device("cpu")
    host, expected = task.build(), task.build()
    run = CapturableRun(task, host, task.examples, cpu, compiled=False)
    for seed in (0, 1, 0):
        run.load(draw_start(task, host, seed, cpu), 0.1)
        task.initialize(expected, seed)
        for name, buffer in expected.named_buffers():
            assert torch.equal(run.model.get_buffer(name), buffer)
        run()


def test_no_cell_sees_what_another_left_in_a_model(their_state):
    cells = [Cell(1, seed, rate) for seed in (0, 1) for rate in (0.1, 0.3, 0.01)]
    torch.manual_seed(5)
    found = dict(SerialRunner(task_at(their_state, 1, DIGITS)).train(cells))
    torch.manual_seed(6)
    again = task_at(their_state, 1, DIGITS)
    for cell, outcome in found.items():
        assert np.array_equal(outcome.losses, train_plainly(again, cell).losses)


def test_epochs_are_counted_in_steps_of_the_examples_taken():
    study = Study(
        "s", Models("mlp?width=4", "layers", (2,)), Training(epochs=2, batch=64), data=Data("digits", limit=640)
    )
    task = task_at(study, 2, DIGITS)
    assert task.training.steps == 20
    assert int(task.order(0).max()) < 640


def test_a_real_sweep_of_small_models_runs_from_end_to_end(tmp_path):
    study = Study(
        "s",
        Models("mlp?width=8", "layers", (2, 4)),
        Training(steps=6, batch=32),
        search=Search(low=1e-3, high=1e2, points=11, seeds=(0, 1)),
    )
    depths = depths_of(study, DIGITS.input)
    assert depths == {2: 3, 4: 5}
    results = sweep(
        study,
        BySize(lambda size: SerialRunner(task_at(study, size, DIGITS))),
        tmp_path / "s.sqlite",
        examples=DIGITS,
        depths=depths,
    )
    assert results.complete
    assert any(record.diverged for record in results.records)
    assert all(curve.optimum is not None for curve in results.curves)


def test_a_users_own_model_data_and_loss_train(tmp_path, monkeypatch) -> None:
    (tmp_path / "their_study.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "def net(layers=2):\n"
        "    return nn.Sequential(nn.Linear(4, 8), *(nn.Linear(8, 8) for _ in range(layers - 1)), nn.Linear(8, 1))\n"
        "def loader():\n"
        "    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))\n"
        "    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), 16)\n"
        "def squared(output, target):\n    return (output - target).square().mean()\n"
    )
    monkeypatch.chdir(tmp_path)
    study = Study(
        "own",
        Models("their_study:net", "layers", (2, 3)),
        Training(steps=30, batch=16, loss="their_study:squared"),
        data=Data("their_study:loader"),
        search=Search(points=5, seeds=(0,)),
    )
    task = task_at(study, 2, load(study.data.name))
    ((_, outcome),) = SerialRunner(task).train([Cell(2, 0, 0.03)])
    assert outcome.losses[-5:].mean() < 0.5 * outcome.losses[0]
    with pytest.raises(DepthlrError, match=r"training\.loss"):
        Training(steps=1, loss="square")
