"""Batches from a loader: what reading it leaves alone, who sees which, and how many are held."""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.over_seeds import persistent_energy_over_seeds
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from depthlr import check_transfer, persistent_energy, suggest_rate, transfer_rate, update_energy
from depthlr.energy import PersistentEnergy, update_energy_over_seeds
from depthlr.energy.batches import GRADIENT_BATCHES, batches_for_seeds
from depthlr.energy.persistent import rate_over_draws
from depthlr.models.mlp import MLP
from depthlr.transfer.measured import Measured


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


# -- who sees which, and how many are held ------------------------------------------------------------------------
Batch = tuple[Tensor, Tensor]
EACH = GRADIENT_BATCHES + 1


def made(count: int) -> list[Batch]:
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(4, 4, generator=generator), torch.arange(4) % 3) for _ in range(count)]


class Stream:
    """Makes its batches while it is read, and counts those read and those that somebody holds."""

    def __init__(self, count: int) -> None:
        self.count, self.read, self.held, self.most = count, 0, 0, 0

    def __iter__(self) -> Iterator[Batch]:
        for place in range(self.count):
            inputs = torch.full((2, 4), float(place))
            self.read, self.held = self.read + 1, self.held + 1
            self.most = max(self.most, self.held)
            weakref.finalize(inputs, self.drop)
            yield inputs.add_(torch.eye(4)[:2]), torch.tensor([place % 3, 1])
            del inputs

    def drop(self) -> None:
        self.held -= 1


class Sized(Stream):
    def __len__(self) -> int:
        return self.count


def places(found: Iterator[list[Batch]]) -> list[list[int]]:
    return [[int(inputs[0, 1]) for inputs, _ in own] for own in found]


@pytest.mark.parametrize("kind", [Sized, Stream, lambda count: iter(Stream(count)), lambda count: list(Stream(count))])
@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (12, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
        (11, [[0, 1, 2, 3]] * 3),
        (3, [[0, 1, 2]] * 3),
    ],
)
def test_every_seed_has_its_own_where_there_are_enough(kind, count: int, expected: list[list[int]]) -> None:
    found = batches_for_seeds(kind(count), 3, 4, seed=0)
    assert int(found.first[0][0, 1]) == 0
    assert places(found.per_seed) == expected


def test_without_a_limit_all_of_a_list_are_used() -> None:
    enough, few = 2 * EACH + 3, 2 * EACH - 1
    own = [list(range(EACH + 1)), list(range(EACH + 1, 2 * EACH + 2))]
    assert places(batches_for_seeds(list(Stream(enough)), 2, None, seed=0).per_seed) == own
    assert places(batches_for_seeds(list(Stream(few)), 2, None, seed=0).per_seed) == [list(range(few))] * 2
    assert places(batches_for_seeds(Sized(few), 2, None, seed=0).per_seed) == [list(range(EACH))] * 2
    assert places(batches_for_seeds(list(Stream(few)), 1, None, seed=0).per_seed) == [list(range(few))]


LIMITED: dict[str, Callable[..., Any]] = {
    "update_energy": lambda batches, **limit: update_energy(fixed(), batches, F.cross_entropy, **limit),
    "update_energy_over_seeds": lambda batches, **limit: update_energy_over_seeds(
        mlp, (0, 1), batches, F.cross_entropy, **limit
    ),
    "persistent_energy": lambda batches, **limit: persistent_energy(fixed(), batches, F.cross_entropy, **limit),
    "suggest_rate, a model": lambda batches, **limit: suggest_rate(fixed(), batches, F.cross_entropy, **limit),
    "suggest_rate, a function": lambda batches, **limit: suggest_rate(mlp, batches, F.cross_entropy, seeds=3, **limit),
    "check_transfer": lambda batches, **limit: check_transfer(mlp, (2, 3), batches, F.cross_entropy, seeds=3, **limit),
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_limit_holds_for_a_list_as_for_a_loader(name: str) -> None:
    batches, measured = made(10), LIMITED[name]
    found = measured(batches, limit=5)
    assert found == measured(batches[:5]) == measured(iter(batches), limit=5)
    assert found != measured(batches)


@pytest.mark.parametrize("kind", [Sized, Stream])
@pytest.mark.parametrize("name", [name for name in CALLS if "energy" not in name or "persistent" in name])
def test_one_seeds_batches_are_held_at_a_time(kind, name: str) -> None:
    loader = kind(3 * EACH)
    CALLS[name](loader)
    assert loader.most <= EACH + 2  # the first of all, and the one that is being made
    assert loader.held == 0


def test_a_loader_too_short_for_all_is_read_no_deeper_than_one_needs() -> None:
    loader = Sized(2 * EACH - 1)
    suggest_rate(mlp, loader, F.cross_entropy, seeds=2)
    assert loader.read == EACH


def test_a_loader_of_a_stream_has_no_length_and_is_counted() -> None:
    class Examples(torch.utils.data.IterableDataset):
        def __iter__(self) -> Iterator[Batch]:
            return iter([(torch.eye(4)[place % 4], torch.tensor(place % 3)) for place in range(40)])

    loader = DataLoader(Examples(), batch_size=4)
    assert persistent_energy_over_seeds(mlp, (0, 1), loader, F.cross_entropy, limit=5) == persistent_energy_over_seeds(
        mlp, (0, 1), list(loader), F.cross_entropy, limit=5
    )


@pytest.mark.parametrize("count", [5, 2 * EACH - 1, 2 * EACH, 2 * EACH + 3])
def test_of_a_list_every_call_measures_what_measuring_one_by_one_does(count: int) -> None:
    batches, names = made(count), (0, 1)
    own = [batches[: count // 2], batches[count // 2 : count // 2 * 2]] if count >= 2 * EACH else [batches, batches]

    def reference(layers: int) -> tuple[PersistentEnergy, ...]:
        found = []
        for name, seen in zip(names, own, strict=True):
            torch.manual_seed(name)
            found.append(persistent_energy(mlp(layers), seen, F.cross_entropy))
        return tuple(found)

    assert persistent_energy_over_seeds(mlp, names, batches, F.cross_entropy) == reference(2)
    checked = check_transfer(mlp, (2, 3), batches, F.cross_entropy, seeds=2)
    assert [row.persistent for row in checked.sizes] == [reference(2), reference(3)]
    here, there = (rate_over_draws(reference(layers)) for layers in (2, 3))
    carried = transfer_rate(0.1, mlp, lambda: mlp(3), batches=batches, loss_fn=F.cross_entropy, seeds=2)
    assert carried.factor == Measured.change(here, there, 3, 4, one_width=True).factor
    one = persistent_energy(fixed(), own[0], F.cross_entropy)  # a model beside a function has the first seed's
    carried = transfer_rate(0.1, fixed(), lambda: mlp(3), batches=batches, loss_fn=F.cross_entropy, seeds=2)
    assert carried.factor == Measured.change(rate_over_draws([one]), there, 3, 4, one_width=True).factor
