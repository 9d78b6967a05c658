"""The promised fall is the loss's own slope along the optimizer's step."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from depthlr.energy.step import step_direction
from depthlr.errors import DepthlrError
from depthlr.transfer.suggest import predicted_fall

X = torch.randn(16, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
BATCH = (X, X[:, :3].argmax(1))


def network(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Dropout(dropout), nn.Linear(12, 3)).double()


def loss_after(model: nn.Module, direction: dict[str, torch.Tensor], rate: float) -> float:
    weights = {name: p.detach() + rate * direction[name] for name, p in model.named_parameters()}
    return float(F.cross_entropy(torch.func.functional_call(model, weights, (BATCH[0],)), BATCH[1]))


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adamw", "muon"])
def test_it_is_the_slope_of_the_loss_along_the_step(optimizer: str) -> None:
    model = network()
    F.cross_entropy(model(BATCH[0]), BATCH[1]).backward()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    direction = step_direction(optimizer, model, gradients)
    ahead, behind = (loss_after(model, direction, rate) for rate in (1e-6, -1e-6))
    assert predicted_fall(model, BATCH, F.cross_entropy, optimizer) == pytest.approx((behind - ahead) / 2e-6, rel=1e-6)


def test_of_plain_sgd_it_is_the_gradients_square() -> None:
    model = network()
    F.cross_entropy(model(BATCH[0]), BATCH[1]).backward()
    square = sum(float((p.grad**2).sum()) for p in model.parameters())
    assert predicted_fall(model, BATCH, F.cross_entropy) == pytest.approx(square)


def test_the_seed_draws_dropout_and_nothing_is_touched() -> None:
    model = network(dropout=0.5)
    state, random_state = {n: t.clone() for n, t in model.state_dict().items()}, torch.get_rng_state()
    first, again, other = (predicted_fall(model, BATCH, F.cross_entropy, seed=seed) for seed in (0, 0, 1))
    assert first == again != other
    assert all(torch.equal(t, state[n]) for n, t in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(p.grad is None for p in model.parameters())


def test_sparse_gradients_count() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(7, 4, sparse=True), nn.Flatten(), nn.Linear(8, 3))
    tokens = (torch.tensor([[0, 1], [2, 2], [5, 6]]), torch.tensor([0, 1, 2]))
    dense = nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(8, 3))
    dense.load_state_dict(model.state_dict())
    found, expected = (predicted_fall(one, tokens, F.cross_entropy) for one in (model, dense))
    assert found == pytest.approx(expected)


def test_a_factory_sees_the_model_itself() -> None:
    model = network()
    first = next(model.parameters()).requires_grad_(False)
    seen = []

    def factory(given: nn.Module) -> torch.optim.Optimizer:
        seen.append(given)
        *body, weight, bias = given.parameters()
        groups = [{"params": body, "lr": 0.0}, {"params": [weight, bias], "lr": 1.0}]
        return torch.optim.SGD(groups)

    head = list(model.parameters())[-2:]
    F.cross_entropy(model(BATCH[0]), BATCH[1]).backward()
    square = sum(float((p.grad**2).sum()) for p in head)
    assert predicted_fall(model, BATCH, F.cross_entropy, factory) == pytest.approx(square)
    assert all(given is model for given in seen)
    assert first.grad is None


def test_inference_mode_is_named() -> None:
    with torch.inference_mode(), pytest.raises(DepthlrError, match="inference_mode"):
        predicted_fall(network(), BATCH, F.cross_entropy)
