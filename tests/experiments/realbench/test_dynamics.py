"""Curvature by differences of gradients, against the whole Hessian; and what a run's step does to its weights."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from tests.experiments.realbench.tiny import tiny_recipe
from torch import nn

from depthlr.study.tasks import load_data, task_at
from depthlr.training.capturable import CapturableRun, draw_start
from experiments.realbench.dynamics import (
    DYNAMICS,
    curvature_along,
    dynamics,
    hessian_times,
    hidden_matrices,
    largest_eigenvalue,
    write_dynamics,
)
from experiments.realbench.reasons import change_over_sizes


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
        self.inputs, self.target = torch.randn(16, 3).double(), torch.randint(2, (16,))

    def loss(self):
        return nn.functional.cross_entropy(self.body(self.inputs), self.target)

    def gradient(self):
        return list(torch.autograd.grad(self.loss(), list(self.parameters())))

    def hessian(self):
        flat = torch.cat([p.detach().flatten() for p in self.parameters()])
        shapes = [p.shape for p in self.parameters()]
        names = [name for name, _ in self.named_parameters()]

        def loss(vector):
            parts = vector.split([math.prod(shape) for shape in shapes])
            state = {
                name.removeprefix("body."): part.view(shape)
                for name, part, shape in zip(names, parts, shapes, strict=True)
            }
            return nn.functional.cross_entropy(
                torch.func.functional_call(self.body, state, (self.inputs,)), self.target
            )

        return torch.autograd.functional.hessian(loss, flat)


def test_curvature_is_that_of_the_hessian():
    model = Small()
    hessian = model.hessian()
    direction = [torch.randn_like(p) for p in model.parameters()]
    flat = torch.cat([part.flatten() for part in direction])
    found = torch.cat([part.flatten() for part in hessian_times(model, model.gradient, direction)])
    assert torch.allclose(found, hessian @ flat, atol=1e-5)
    assert curvature_along(model, model.gradient, direction) == pytest.approx(
        float(flat @ hessian @ flat / (flat @ flat)), rel=1e-4
    )
    values = torch.linalg.eigvalsh(hessian)
    largest = values[values.abs().argmax()]
    assert largest_eigenvalue(model, model.gradient, steps=200) == pytest.approx(float(largest), rel=1e-3)


def test_looking_at_curvature_leaves_the_weights():
    model = Small()
    before = [p.clone() for p in model.parameters()]
    largest_eigenvalue(model, model.gradient)
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))


def measured(steps, **training):
    recipe = tiny_recipe(**training)
    examples, _ = load_data(recipe.study)
    task = task_at(recipe.study, 1, examples)
    stepper = CapturableRun(task, task.build(), examples, torch.device("cpu"), compiled=False)
    return dict(dynamics(task, stepper, 0, 0.05, steps)), stepper, task


def test_measuring_a_run_does_not_change_it():
    _, stepper, task = measured((0, 2, 5))
    plain = CapturableRun(task, task.build(), stepper.examples, torch.device("cpu"), compiled=False)
    plain.load(draw_start(task, task.build(), 0, torch.device("cpu")), 0.05)
    for _ in range(6):
        plain()
    assert torch.equal(plain.losses, stepper.losses)
    for mine, theirs in zip(plain.model.state_dict().values(), stepper.model.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_step_turns_and_moves_the_weights_as_they_say():
    found, stepper, task = measured((0,), momentum=0.0)
    start = draw_start(task, task.build(), 0, torch.device("cpu"))
    names = hidden_matrices(stepper.model)
    old = torch.cat([start.state[name].flatten() for name in names])
    new = torch.cat([dict(stepper.model.named_parameters())[name].detach().flatten() for name in names])
    assert found[0]["weight_norm"] == pytest.approx(float(old.norm()))
    assert found[0]["relative_update"] == pytest.approx(float((new - old).norm() / old.norm()), rel=1e-4)
    cosine = float(nn.functional.cosine_similarity(old.double(), new.double(), dim=0))
    assert math.cos(found[0]["angle"]) == pytest.approx(cosine, abs=1e-9)
    moved = [float((start.state[n] - p.detach()).norm()) for n, p in stepper.model.named_parameters()]
    # Without momentum the step is the rate times the gradient of its own batch, which is not the one measured on.
    assert math.hypot(*moved) == pytest.approx(0.05 * found[0]["gradient_norm"], rel=1.0)


def test_a_table_of_dynamics_goes_on_where_it_was(tmp_path):
    recipe, path = tiny_recipe(), tmp_path / "dynamics" / "tiny.csv"
    options = {"device": "cpu", "steps": (0, 3, 99), "seeds": (0,)}
    assert write_dynamics(recipe, Path(), 0.05, tmp_path / "whole.csv", seconds=None, **options)
    assert not write_dynamics(recipe, Path(), 0.05, path, seconds=-1.0, **options)
    rows = DYNAMICS.read(tmp_path / "whole.csv")
    assert set(rows) == {("1", "0", "0"), ("1", "0", "3"), ("2", "0", "0"), ("2", "0", "3")}  # a run has 8 steps
    lines = (tmp_path / "whole.csv").read_text().splitlines()
    path.write_text("\n".join(lines[:2]) + "\n")
    assert write_dynamics(recipe, Path(), 0.05, path, seconds=None, **options)
    for key, row in DYNAMICS.read(path).items():
        assert {k: v for k, v in row.items() if k != "seconds"} == {
            k: v for k, v in rows[key].items() if k != "seconds"
        }


def test_changes_over_sizes_are_decades_between_the_ends():
    rows = {
        (str(size), seed, step): {"size": str(size), "step": step, "angle": str(sign * size**2)}
        for size in (1, 2, 10)
        for seed in "01"
        for step, sign in (("30", 1), ("60", -1), ("900", 1000))
    }
    assert change_over_sizes(rows, "angle", (30, 60)) == pytest.approx(2.0)
