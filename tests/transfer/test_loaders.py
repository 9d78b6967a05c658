"""Batches from a DataLoader: what reading it leaves alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from depthlr import check_transfer, persistent_energy, suggest_rate, transfer_rate, update_energy
from depthlr.energy import persistent_energy_over_seeds, update_energy_over_seeds
from depthlr.models.mlp import MLP


def mlp(layers: int = 2) -> nn.Module:
    return MLP(layers=layers, width=5, inputs=4, classes=3)


def fixed(layers: int = 2) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return mlp(layers)


class Augmented(Dataset):
    """Every example is jittered by each of the generators that a transform may use."""

    def __len__(self) -> int:
        return 160

    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        jitter = torch.randn(4) + float(np.random.rand()) + random.random()  # noqa: NPY002
        return torch.arange(4.0) - place % 3 + 0.1 * jitter, torch.tensor(place % 3)


CALLS: dict[str, Callable[[Any], Any]] = {
    "update_energy": lambda loader: update_energy(fixed(), loader, F.cross_entropy),
    "update_energy_over_seeds": lambda loader: update_energy_over_seeds(mlp, (0, 1), loader, F.cross_entropy),
    "persistent_energy": lambda loader: persistent_energy(fixed(), loader, F.cross_entropy),
    "persistent_energy_over_seeds": lambda loader: persistent_energy_over_seeds(mlp, (0, 1), loader, F.cross_entropy),
    "suggest_rate, a model": lambda loader: suggest_rate(fixed(), loader, F.cross_entropy),
    "suggest_rate, a function": lambda loader: suggest_rate(mlp, loader, F.cross_entropy, seeds=2),
    "transfer_rate, models": lambda loader: transfer_rate(
        0.1, fixed(2), fixed(3), batches=loader, loss_fn=F.cross_entropy
    ),
    "transfer_rate, functions": lambda loader: transfer_rate(
        0.1, mlp, lambda: mlp(3), batches=loader, loss_fn=F.cross_entropy, seeds=2
    ),
    "transfer_rate, am-mup": lambda loader: transfer_rate(
        0.1, fixed(2), fixed(3), batches=loader, loss_fn=F.cross_entropy, rule="am-mup"
    ),
    "check_transfer": lambda loader: check_transfer(mlp, (2, 3), loader, F.cross_entropy, seeds=2),
}


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_random_states_are_left_alone_and_decide_nothing(name: str, *, shuffle: bool) -> None:
    loader = DataLoader(Augmented(), batch_size=4, shuffle=shuffle)
    found = []
    for state in (1, 2):
        torch.manual_seed(state)
        np.random.seed(state)  # noqa: NPY002
        random.seed(state)
        kept = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
        found.append(CALLS[name](loader))
        assert torch.equal(torch.get_rng_state(), kept[0])
        assert (np.random.get_state()[1] == kept[1]).all()  # noqa: NPY002
        assert random.getstate() == kept[2]
    assert found[0] == found[1]


def test_the_seed_shuffles() -> None:
    loader = DataLoader(Augmented(), batch_size=4, shuffle=True)
    model = fixed()  # without dropout: only the batches can differ
    assert persistent_energy(model, loader, F.cross_entropy, seed=0) != persistent_energy(
        model, loader, F.cross_entropy, seed=1
    )


def test_inputs_drawn_while_read_are_not_the_weights_over_again() -> None:
    weights, inputs = [], []

    def build() -> nn.Module:
        model = nn.utils.skip_init(nn.Linear, 16, 3, bias=False)
        weights.append(model.weight.data.normal_()[0].clone())
        return model

    def stream() -> Any:
        while True:
            inputs.append(torch.randn(2, 16))
            yield inputs[-1], torch.tensor([0, 1])

    persistent_energy_over_seeds(build, (0, 1), stream(), F.cross_entropy, limit=3)
    assert all(abs(float(torch.corrcoef(torch.stack([w, x[0]]))[0, 1])) < 0.9 for w in weights for x in inputs)
