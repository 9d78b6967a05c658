"""A probe's energies are update_energy's, and its slope and curvature those of the loss along the step."""

import pytest
import torch

from depthlr.data import digits_batch
from depthlr.energy import update_energy
from depthlr.energy.step import step_direction
from depthlr.init import init_
from depthlr.models import build
from depthlr.training.task import mean_cross_entropy
from experiments.transferbench.measuring import Probe


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "muon"])
@pytest.mark.parametrize("spec", ["resnet?blocks=2&width=8&batch_norm=true", "vit?blocks=1&width=8&heads=2&patch=4"])
def test_energies_are_those_of_update_energy(spec, optimizer):
    batch = digits_batch(8, 0)
    model = init_(build(spec, input="1x8x8")[0], batch[0], seed=0)
    found = Probe(model, batch[0], mean_cross_entropy).next_step(batch, optimizer)
    true = update_energy(model, batch, mean_cross_entropy, optimizer)
    assert [u.energy for u in found.hidden] == pytest.approx([u.energy for u in true.hidden], rel=1e-5)
    assert [u.mean_square for u in found.hidden] == pytest.approx([u.mean_square for u in true.hidden], rel=1e-5)
    assert found.readout.energy == pytest.approx(true.readout, rel=1e-5)
    assert all(0 <= u.coherent <= u.energy for u in (*found.hidden, found.readout))


def test_slope_and_curvature_are_the_loss_along_the_step():
    batch = tuple(t.double() if t.is_floating_point() else t for t in digits_batch(16, 0))
    model = init_(build("mlp?layers=2&width=8&activation=tanh", input="1x8x8")[0], batch[0].float(), seed=0).double()

    def loss_fn(logits, target):
        return torch.nn.functional.cross_entropy(logits, target)

    probe = Probe(model, batch[0], loss_fn)
    found = probe.next_step(batch, "sgd")
    parameters = dict(model.named_parameters())
    found_gradients = torch.autograd.grad(loss_fn(model(batch[0]), batch[1]), [*parameters.values()])
    gradients = dict(zip(parameters, found_gradients, strict=True))
    direction = step_direction("sgd", model, gradients)

    def loss(rate):
        moved = {name: p.detach() + rate * direction[name] for name, p in parameters.items()}
        return float(loss_fn(torch.func.functional_call(model, moved, (batch[0],)), batch[1]))

    h = 1e-3
    assert found.loss == pytest.approx(loss(0))
    assert found.slope == pytest.approx((loss(h) - loss(-h)) / (2 * h), rel=1e-4)
    assert found.curvature == pytest.approx((loss(h) - 2 * loss(0) + loss(-h)) / h**2, rel=1e-3)
    assert found.gauss_newton > 0
