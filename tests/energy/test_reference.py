"""Energies equal a dense Jacobian times a real optimizer step, in float64."""

import pytest
import torch
import torch.nn.functional as F
from tests.reference import cnn_states, dense_energies, mlp_states, resnet_states, vit_states

from depthlr.energy import update_energy
from depthlr.init import init_
from depthlr.models.convolution import CNN, ResNet
from depthlr.models.mlp import MLP
from depthlr.models.vit import ViT
from depthlr.optimizers import make_optimizers

TRANSFORMER = {"blocks": 2, "width": 4, "heads": 2, "inputs": 1, "size": 4, "patch": 2, "classes": 3, "ratio": 2}
MODELS = {
    "mlp": (lambda: MLP(layers=3, width=5, inputs=16, classes=3), mlp_states),
    "cnn": (lambda: CNN(layers=3, width=3, inputs=1, classes=3), cnn_states),
    "resnet": (lambda: ResNet(blocks=3, width=3, inputs=1, classes=3), resnet_states),
    "resnet+bn+dropout": (
        lambda: ResNet(blocks=2, width=3, inputs=1, classes=3, batch_norm=True, dropout=0.3),
        resnet_states,
    ),
    "vit post-LN": (lambda: ViT(**TRANSFORMER, norm="post"), vit_states),
    "vit pre-LN": (lambda: ViT(**TRANSFORMER, norm="pre"), vit_states),
    "vit dropout": (lambda: ViT(**TRANSFORMER, norm="pre", dropout=0.2, drop_path=0.5), vit_states),
}
OPTIMIZERS = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
    "sgd+decay": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01),
    "momentum": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda model: torch.optim.Adam(model.parameters(), lr=0.1),
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.05),
    "muon": lambda model: make_optimizers("muon", model, 0.1),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_energies_equal_a_dense_jacobian_times_a_real_step(name: str, optimizer: str) -> None:
    build, states = MODELS[name]
    torch.manual_seed(0)
    model = build().double()
    x, y = torch.randn(4, 1, 4, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 1])
    init_(model, x, seed=1)
    found = update_energy(model, (x, y), F.cross_entropy, OPTIMIZERS[optimizer], seed=3)
    expected = dense_energies(model, states, x, y, F.cross_entropy, OPTIMIZERS[optimizer], seed=3)
    assert len(found.units) == len(expected)
    assert [u.energy for u in found.units] == pytest.approx(expected, rel=1e-9)
    assert found.readout == pytest.approx(expected[-1], rel=1e-9)
    assert min(expected) > 0
