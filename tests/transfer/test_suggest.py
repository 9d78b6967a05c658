"""A suggested rate: what it is, what leaves it alone, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthlr import DepthlrError, init_, suggest_rate, update_energy
from depthlr.models.resnet import ResNet
from depthlr.transfer.suggest import INTERVAL_DECADES

X, Y = torch.randn(8, 1, 6, 6, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3


def resnet(**options) -> nn.Module:
    return init_(ResNet(**{"blocks": 3, "width": 6, "inputs": 1, "classes": 3, **options}), X, seed=0)


def scaled(factor: float):
    return lambda output, target: factor * F.cross_entropy(output, target)


def rate(model: nn.Module, optimizer="sgd", loss_fn=F.cross_entropy, batches=(X, Y)) -> float:
    return suggest_rate(model, batches, loss_fn, optimizer).rate


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "muon"])
def test_the_larger_of_mean_and_readout_energy_is_one(optimizer: str) -> None:
    model = resnet()
    energy = update_energy(model, (X, Y), F.cross_entropy, optimizer)
    found = suggest_rate(model, (X, Y), F.cross_entropy, optimizer)
    assert found.rate**2 * max(energy.mean, energy.readout) == pytest.approx(1)
    assert math.log10(found.high / found.rate) == pytest.approx(INTERVAL_DECADES)
    assert found.low * found.high == pytest.approx(found.rate**2)
    assert float(found) == found.rate
    assert any("not yet calibrated" in note for note in found.notes)


def test_either_energy_may_be_the_larger() -> None:
    learning, fixed = resnet().double(), resnet().double()
    with torch.no_grad():
        fixed.head.requires_grad_(False).weight.mul_(0.01)  # units move by its weight, the readout by its square
    batch = (X.double(), Y)
    for model, readout_rules in ((learning, True), (fixed, False)):
        energy = update_energy(model, batch, F.cross_entropy)
        assert (energy.readout > energy.mean) is readout_rules
        assert rate(model, batches=batch) == pytest.approx(max(energy.readout, energy.mean) ** -0.5)


def test_scaling_the_loss_leaves_adams_rate_and_divides_sgds() -> None:
    model = resnet().double()
    batch = (X.double(), Y)

    def precise(parameters):
        return torch.optim.Adam(parameters, eps=1e-30)

    assert rate(model, precise, scaled(7), batch) == pytest.approx(rate(model, precise, scaled(1), batch), rel=1e-6)
    assert rate(model, "sgd", scaled(7), batch) == pytest.approx(rate(model, "sgd", scaled(1), batch) / 7, rel=1e-6)


def test_several_batches_give_the_geometric_mean() -> None:
    model = resnet()
    halves = [(X[:4], Y[:4]), (X[4:], Y[4:])]
    each = [rate(model, batches=half) for half in halves]
    assert rate(model, batches=halves) == pytest.approx(math.sqrt(each[0] * each[1]))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=4)
    assert rate(model, batches=loader) == pytest.approx(math.sqrt(each[0] * each[1]))


@pytest.mark.parametrize(
    ("options", "factor"),
    [
        ({"momentum": 0.9}, 0.1),
        ({"momentum": 0.9, "nesterov": True}, 0.1),
        ({"momentum": 0.9, "dampening": 0.9}, 1.0),
        ({"momentum": 0.5}, 0.5),
    ],
)
def test_momentum_divides_the_rate_by_what_it_adds_in_the_long_run(options: dict, factor: float) -> None:
    model = resnet().double()
    batch = (X.double(), Y)
    found = suggest_rate(model, batch, F.cross_entropy, lambda p: torch.optim.SGD(p, lr=1e-3, **options))
    assert found.rate == pytest.approx(factor * rate(model, batches=batch), rel=1e-6)
    assert any("momentum" in note for note in found.notes) is (factor < 1)


@pytest.mark.parametrize(
    ("stem", "body", "factor", "differ"),
    [
        ({"momentum": 0.9, "lr": 0.0}, {"momentum": 0.5}, 0.5, False),
        ({"momentum": 0.9, "frozen": True}, {"momentum": 0.5}, 0.5, False),
        ({"momentum": 1.0, "frozen": True}, {}, 1.0, False),
        ({"momentum": 0.9}, {"momentum": 0.5}, 0.1, True),
        ({"momentum": 0.9, "lr": 0.0, "initial_lr": 1e-3}, {}, 0.1, True),
    ],
)
def test_only_groups_that_move_count_and_the_largest_momentum_rules(stem, body, factor, differ) -> None:
    model, batch = resnet().double(), (X.double(), Y)
    stem = dict(stem)
    first, *rest = model.parameters()
    first.requires_grad_(not stem.pop("frozen", False))

    def optimizer(**options):
        groups = [{"params": [first], **stem, **options}, {"params": rest, **body, **options}]
        return torch.optim.SGD(groups, lr=1e-3)

    found = suggest_rate(model, batch, F.cross_entropy, optimizer())
    plain = rate(model, optimizer(momentum=0.0), batches=batch)
    assert found.rate == pytest.approx(factor * plain, rel=1e-6)
    assert any("group where it adds most" in note for note in found.notes) is differ


def test_the_long_run_of_momentum_is_what_torch_does() -> None:
    for nesterov in (False, True):
        weight = nn.Parameter(torch.zeros((), dtype=torch.float64))
        optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.9, nesterov=nesterov)
        for _ in range(400):
            before = weight.item()
            weight.grad = torch.ones_like(weight)
            optimizer.step()
        assert before - weight.item() == pytest.approx(10.0)


def test_a_head_of_zeros_still_gives_a_rate_and_says_so() -> None:
    model = resnet()
    nn.init.zeros_(model.head.weight)
    found = suggest_rate(model, (X, Y), F.cross_entropy)
    assert found.rate > 0
    assert any("readout alone" in note for note in found.notes)


def test_optimizers_that_were_not_compared_are_named() -> None:
    found = suggest_rate(resnet(), (X, Y), F.cross_entropy, torch.optim.RMSprop)
    assert any("not for RMSprop" in note for note in found.notes)


def test_everything_is_left_as_it_was() -> None:
    model = resnet(dropout=0.3, batch_norm=True).train()
    F.cross_entropy(model(X), Y).backward()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    state = {n: t.clone() for n, t in model.state_dict().items()}
    gradients = {n: p.grad.clone() for n, p in model.named_parameters()}
    random_state, groups = torch.get_rng_state(), [dict(g) for g in optimizer.param_groups]
    first = suggest_rate(model, (X, Y), F.cross_entropy, optimizer)
    assert suggest_rate(model, (X, Y), F.cross_entropy, optimizer) == first
    assert all(torch.equal(t, state[n]) for n, t in model.state_dict().items())
    assert all(torch.equal(p.grad, gradients[n]) for n, p in model.named_parameters())
    assert torch.equal(torch.get_rng_state(), random_state)
    assert [dict(g) for g in optimizer.param_groups] == groups
    assert not optimizer.state


class Huge(nn.Module):
    """Its step is finite, and its square is not."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(36, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(1)) * 1e14


def stepped(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    F.cross_entropy(model(X), Y).backward()
    optimizer.step()
    return optimizer


STEPPED = resnet()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: suggest_rate(resnet(), [], F.cross_entropy), "batches is empty"),
        (lambda: suggest_rate(resnet(), (X * math.nan, Y), F.cross_entropy), "loss is nan"),
        (lambda: suggest_rate(resnet(), (X, Y), scaled(math.inf)), "loss is inf"),
        (lambda: suggest_rate(nn.ReLU(), (X, Y), F.cross_entropy), "no parameters"),
        (lambda: suggest_rate(resnet(), (X, Y), scaled(0.0)), "gradient is zero"),
        (lambda: suggest_rate(Huge(), (X, Y), lambda out, y: out.mean()), "overflow"),
        (lambda: suggest_rate(resnet(), (X, Y), F.cross_entropy, "sdg"), "unknown optimizer"),
        (lambda: suggest_rate(STEPPED, (X, Y), F.cross_entropy, stepped(STEPPED)), "taken steps already"),
        (
            lambda: suggest_rate(resnet(), (X, Y), F.cross_entropy, lambda p: torch.optim.SGD(p, momentum=1.0)),
            "never settles",
        ),
    ],
)
def test_what_gives_no_rate_gets_one_sentence(call, message: str) -> None:
    with pytest.raises(DepthlrError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_it_prints_its_interval_and_its_assumptions() -> None:
    found = suggest_rate(resnet(), (X, Y), F.cross_entropy)
    assert str(found).startswith(f"{found.rate:.3g} (80% {found.low:.3g} to {found.high:.3g})\nnote: ")
    assert found.measure in found._repr_html_()
