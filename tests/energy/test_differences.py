"""Where an operation has no forward-mode derivative, finite differences measure the same energies."""

from __future__ import annotations

import pytest
import torch
from tests.energy.test_real_models import stack
from torch import Tensor, nn

from depthlr.energy import persistent_energy, update_energy
from depthlr.energy.jvp import _Run
from depthlr.errors import DepthlrError
from depthlr.models.build import build

BATCH = (torch.randn(6, 8, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 4)
WARNED = pytest.mark.filterwarnings("ignore:an operation of the model has no forward-mode derivative")


class Bags(nn.Module):
    """Bags of tokens, as nn.EmbeddingBag sums them or written out."""

    def __init__(self, bag: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Parameter(torch.randn(12, 8))
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 4))
        self.bag = bag

    def forward(self, ids: Tensor) -> Tensor:
        if self.bag:
            return self.layers(nn.functional.embedding_bag(ids, self.table, mode="sum"))
        return self.layers(nn.functional.embedding(ids, self.table).sum(1))


@WARNED
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_an_embedding_bag_is_measured_as_its_sum_is(optimizer: str) -> None:
    generator = torch.Generator().manual_seed(0)
    batches = [
        (torch.randint(12, (5, 3), generator=generator), torch.randint(4, (5,), generator=generator)) for _ in range(3)
    ]
    found, expected = (
        update_energy(Bags(bag), batches, nn.functional.cross_entropy, optimizer) for bag in (True, False)
    )
    assert found.readout == pytest.approx(expected.readout, rel=1e-3)
    assert found.hidden[-1].energy == pytest.approx(expected.hidden[-1].energy, rel=1e-3)
    found, expected = (
        persistent_energy(Bags(bag), batches, nn.functional.cross_entropy, optimizer) for bag in (True, False)
    )
    assert found.energy == pytest.approx(expected.energy, rel=1e-3)


@WARNED
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_differences_are_the_tangents(optimizer: str, monkeypatch) -> None:
    model = nn.Sequential(stack(8, 16, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.Linear(16, 4))
    expected = update_energy(model, BATCH, nn.functional.cross_entropy, optimizer)

    def refused(self, observer):
        raise NotImplementedError("made up")

    monkeypatch.setattr(_Run, "on_duals", refused)
    found = update_energy(model, BATCH, nn.functional.cross_entropy, optimizer)
    for one, other in zip(found.units, expected.units, strict=True):
        assert one.energy == pytest.approx(other.energy, rel=3e-3)
        assert one.mean_square == pytest.approx(other.mean_square)
    assert found.readout == pytest.approx(expected.readout, rel=3e-3)


def test_the_error_is_told() -> None:
    ids = torch.randint(12, (5, 3))
    with pytest.warns(
        UserWarning, match=r"embedding_bag.* by finite differences, with a relative error of about \S+\."
    ):
        update_energy(Bags(True), (ids, torch.zeros(5, dtype=torch.int64)), nn.functional.cross_entropy)


class Trembling(nn.Module):
    """Its output waves faster than any difference can follow."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = Bags(True)

    def forward(self, ids: Tensor) -> Tensor:
        found = self.bags(ids)
        return found + torch.sin(1e7 * found)


def test_differences_that_are_not_exact_enough_are_refused() -> None:
    ids = torch.randint(12, (5, 3))
    with pytest.raises(DepthlrError, match="finite differences are not exact enough"):
        update_energy(Trembling(), (ids, torch.zeros(5, dtype=torch.int64)), nn.functional.cross_entropy)


@WARNED
def test_a_mixture_of_experts_with_a_grouped_product_is_measured() -> None:
    """The library's grouped kernel and its batched one are the same function."""
    sizes = "hidden_size=16&intermediate_size=16&num_hidden_layers=2&num_attention_heads=2&num_key_value_heads=2"
    spec = f"hf/mixtral?{sizes}&vocab_size=20&num_local_experts=4&_experts_implementation="
    ids = torch.randint(20, (2, 8), generator=torch.Generator().manual_seed(0))
    found = []
    for kind in ("grouped_mm", "batched_mm"):
        torch.manual_seed(0)
        model, _ = build(spec + kind)
        found.append(update_energy(model, {"input_ids": ids, "labels": ids}, None, "sgd"))
    grouped, batched = found
    assert grouped.readout == pytest.approx(batched.readout, rel=0.02)
    assert grouped.mean == pytest.approx(batched.mean, rel=0.02)
