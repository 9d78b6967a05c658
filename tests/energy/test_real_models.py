"""Models as users have them: hooks, states kept in attributes, spectral norm, generators of their own, frozen parts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthlr.energy import update_energy, update_energy_over_seeds
from depthlr.errors import DepthlrError
from depthlr.init import init_
from depthlr.trace import effective_depth

B = (torch.randn(6, 8, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 4)


def stack(*widths: int) -> nn.Sequential:
    torch.manual_seed(1)
    layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
    return nn.Sequential(*(part for layer in layers for part in (layer, nn.Tanh())))[:-1]


def energies(model: nn.Module, **options) -> list[float]:
    found = update_energy(model, B, F.cross_entropy, **options)
    return [*(unit.energy for unit in found.units), found.readout]


@pytest.mark.parametrize(
    "hook",
    [
        lambda layer: layer.register_full_backward_hook(lambda *given: None),
        lambda layer: layer.register_full_backward_pre_hook(lambda *given: None),
        lambda layer: layer.register_forward_hook(
            lambda module, inputs, output: output.register_hook(lambda g: g) and None if output.requires_grad else None
        ),
    ],
    ids=["backward", "backward pre", "tensor"],
)
def test_hooks_on_gradients_change_no_energy(hook) -> None:
    expected = energies(stack(8, 16, 16, 4))
    hooked = stack(8, 16, 16, 4)
    hook(hooked[2])
    assert energies(hooked) == expected


def test_a_layer_that_runs_without_gradients_alone_is_refused() -> None:
    """The states of later units would be taken from another's."""

    class Watching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.probe = stack(8, 16, 16, 16, 4), nn.Linear(16, 16)

        def forward(self, x: Tensor) -> Tensor:
            x = self.layers[1](self.layers[0](x))
            if not torch.is_grad_enabled():
                self.probe(x)
            return self.layers[2:](x)

    with pytest.raises(DepthlrError, match="did not run the same operations"):
        energies(Watching())


def test_layers_that_change_places_without_gradients_are_refused() -> None:
    """The operations are the same in number and name, and their weights are not."""

    class Swapping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = stack(8, 16, 16, 16, 4)

        def forward(self, x: Tensor) -> Tensor:
            first, *parts = self.layers
            if not torch.is_grad_enabled():
                parts[1], parts[3] = parts[3], parts[1]
            return nn.Sequential(first, *parts)(x)

    with pytest.raises(DepthlrError, match="did not run the same operations"):
        energies(Swapping())


class Keeping(nn.Module):
    """Keeps a state in an attribute, as many do for their users to look at."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        self.last = self.a(x).relu()
        return self.b(self.last)


@pytest.mark.parametrize("width", [8, 1500], ids=["small", "large"])
def test_a_large_model_may_keep_a_state_as_a_small_one_may(width) -> None:
    model = Keeping(width)
    assert effective_depth(model, torch.randn(2, width)).total == 2
    assert not hasattr(model, "last")


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.spectral_norm], ids=lambda f: f.__name__)
def test_large_models_normed_by_hooks_are_counted(norm) -> None:
    model = nn.Sequential(norm(nn.Linear(1500, 1500)), nn.ReLU(), nn.Linear(1500, 10))
    assert effective_depth(model, torch.randn(2, 1500)).total == 2


def test_spectral_norm_is_measured_as_a_small_real_step_moves_it() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(8, 16)), nn.Tanh(), nn.Linear(16, 4))
    for _ in range(50):  # until the power iteration stands still
        model(B[0])
    model, rate = model.double(), 1e-6
    batch = B[0].double(), B[1]
    found = update_energy(model, batch, F.cross_entropy, lambda model: torch.optim.SGD(model.parameters(), lr=1.0))
    before = model(batch[0])
    F.cross_entropy(before, batch[1]).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= rate * parameter.grad
        moved = (model(batch[0]) - before) / rate
    assert found.readout == pytest.approx(moved.square().mean().item(), rel=1e-3)


def test_a_random_state_of_the_models_own_is_put_back() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.draws = stack(8, 16, 4), np.random.RandomState(3)

        def forward(self, x: Tensor) -> Tensor:
            return self.layers(x + float(self.draws.rand()))

    model = Noisy()
    assert energies(model) == energies(model)
    assert model.draws.rand() == np.random.RandomState(3).rand()


def test_numpys_whole_numbers_are_seeds() -> None:
    assert energies(stack(8, 16, 4), seed=np.int64(3)) == energies(stack(8, 16, 4), seed=3)
    build = lambda: nn.Linear(8, 4)  # noqa: E731
    one, other = (update_energy_over_seeds(build, seeds, B, F.cross_entropy) for seeds in (list(np.arange(2)), [0, 1]))
    assert one.rate == other.rate
    drawn = [init_(stack(8, 16, 4), B[0], seed=seed)[0].weight for seed in (np.int64(5), 5)]
    assert torch.equal(*drawn)


@pytest.mark.parametrize("seed", [1.5, "0", -1, 2**64])
def test_what_is_no_seed_is_a_sentence(seed) -> None:
    for call in (
        lambda: init_(stack(8, 16, 4), B[0], seed=seed),
        lambda: energies(stack(8, 16, 4), seed=seed),
    ):
        with pytest.raises(DepthlrError, match=r"^The seed is [^\n]+: give a whole number of at (least|most) [^\n]+$"):
            call()


def test_frozen_parameters_keep_their_values() -> None:
    model = stack(8, 16, 16, 4)
    model[0].requires_grad_(False)
    before = [parameter.clone() for parameter in model.parameters()]
    init_(model, B[0], seed=0)
    kept = [torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert kept[:2] == [True, True]
    assert not any(kept[2::2])
    with pytest.raises(DepthlrError, match="every parameter is frozen"):
        init_(model.requires_grad_(False), B[0])
