"""A model is traced for real, on zeros or with fake tensors; all three see the same units."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from depthlr.init.plan import init_plan
from depthlr.models.build import build
from depthlr.trace import tracing
from depthlr.trace.depth import depth_of, effective_depth
from depthlr.trace.interface import arguments_of
from depthlr.trace.recorder import Recorder

SPECS = (
    "mlp?layers=3&width=8",
    "cnn?layers=3&width=8",
    "cnn1d?layers=3&width=8",
    "resnet?blocks=3&width=8&batch_norm=true",
    "vit?blocks=2&width=8&heads=2",
    "beit?blocks=2&width=8&heads=2",
    "cct?blocks=2&width=8&heads=2",
    "gpt?blocks=2&width=8&heads=2",
)
WAYS = (tracing._run_real, tracing._run_on_zeros, tracing._run_fake)


@pytest.mark.parametrize("spec", SPECS)
def test_every_way_sees_the_same_units(spec):
    model, example = build(spec)
    seen = [depth_of(way(model, arguments_of(example), partial(Recorder, model))) for way in WAYS]
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("meta", [False, True])
def test_a_large_model_takes_no_memory_and_a_small_one_no_compiler(meta, monkeypatch):
    used = []
    for name in ("_run_real", "_run_on_zeros", "_run_fake"):
        way = getattr(tracing, name)
        monkeypatch.setattr(tracing, name, lambda *given, way=way, name=name: used.append(name) or way(*given))
    for spec in ("mlp?layers=2&width=8", "mlp?layers=2&width=2048"):
        tracing.trace(*build(spec, meta=meta))
    assert used == ["_run_on_zeros" if meta else "_run_real", "_run_fake"]


def test_counting_a_small_model_imports_no_compiler():
    """It takes a second to import, twice as long as all else."""
    code = (
        "import sys; from depthlr.models.build import build; from depthlr.trace.depth import effective_depth; "
        "print(effective_depth(*build('resnet?blocks=2&width=8', meta=True)).total, 'torch._dynamo' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["4", "False"]


class Dropping(nn.Module):
    """Leaves whole layers out in training."""

    def __init__(self, draw: Callable[[], Any]) -> None:
        super().__init__()
        self.layers, self.head, self.draw = nn.ModuleList(nn.Linear(4, 4) for _ in range(6)), nn.Linear(4, 3), draw

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            if not (self.training and self.draw() < 0.5):
                x = x + torch.relu(layer(x))
        return self.head(x)


@pytest.mark.parametrize("small", [0, 2**21], ids=["fake", "real"])
@pytest.mark.parametrize("draw", [random.random, lambda: torch.rand([])], ids=["python", "torch"])
def test_layers_that_training_drops_at_random_count(draw, small, monkeypatch):
    monkeypatch.setattr(tracing, "SMALL_MODEL", small)
    model = Dropping(draw).train()
    model.layers[0].eval()
    states = random.getstate(), torch.get_rng_state()
    assert effective_depth(model, torch.zeros(2, 4)).total == 7
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
    assert [layer.training for layer in model.layers] == [False, *[True] * 5]  # flags are put back
    plan = init_plan(model, torch.zeros(2, 4))
    assert {step.become for step in plan if step.name.endswith("weight")} == {"normal"}
