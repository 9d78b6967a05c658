"""A suggested rate: what it is, what leaves it alone, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthlr import DepthlrError, init_, persistent_energy, suggest_rate
from depthlr.data.random_batches import random_batches
from depthlr.energy.fall import promised_fall
from depthlr.models.resnet import ResNet
from depthlr.transfer.suggest import BALANCED, ENERGY_ALONE, Basis

BATCHES = random_batches(torch.zeros(1, 1, 6, 6), (1, 3), 8, 5, seed=0)
PRECISE = [(x.double(), y) for x, y in BATCHES]
X, Y = BATCHES[0]


def resnet(**options) -> nn.Module:
    return init_(ResNet(**{"blocks": 3, "width": 6, "inputs": 1, "classes": 3, **options}), X, seed=0)


def scaled(factor: float):
    return lambda output, target: factor * F.cross_entropy(output, target)


def rate(model: nn.Module, optimizer="sgd", loss_fn=F.cross_entropy, batches=BATCHES) -> float:
    return suggest_rate(model, batches, loss_fn, optimizer).rate


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "muon"])
def test_it_is_a_fixed_multiple_of_the_middle_between_energy_one_and_the_whole_loss(optimizer: str) -> None:
    model = resnet()
    energy = persistent_energy(model, BATCHES, F.cross_entropy, optimizer)
    fall = promised_fall(model, BATCHES[0], F.cross_entropy, optimizer)
    found = suggest_rate(model, BATCHES, F.cross_entropy, optimizer)
    one, whole = energy.energy**-0.5, energy.loss / fall
    assert found.rate**2 == pytest.approx(10 ** (2 * BALANCED.decades) * one * whole)
    assert math.log10(found.high / found.rate) == pytest.approx(BALANCED.interval)
    assert found.low * found.high == pytest.approx(found.rate**2)
    assert (float(found), found.measure) == (found.rate, BALANCED.measure)
    assert any("tuned rates of ten tasks" in note for note in found.notes)


@pytest.mark.parametrize("basis", [BALANCED, ENERGY_ALONE])
def test_the_measure_says_by_what_the_measured_rate_is_multiplied(basis: Basis) -> None:
    assert basis.measure.startswith(f"{10**basis.decades:.1f} times the ")


def test_a_loss_below_zero_leaves_the_energy_alone() -> None:
    model = resnet()
    found = suggest_rate(model, BATCHES, lambda output, target: F.cross_entropy(output, target) - 5)
    energy = persistent_energy(model, BATCHES, F.cross_entropy)
    assert found.rate == pytest.approx(10**ENERGY_ALONE.decades * energy.rate)
    assert math.log10(found.high / found.rate) == pytest.approx(ENERGY_ALONE.interval)
    assert any("left out of the measure" in note for note in found.notes)


def test_scaling_the_loss_leaves_adams_rate_and_divides_sgds() -> None:
    model = resnet().double()

    def precise(parameters):
        return torch.optim.Adam(parameters, eps=1e-30)

    for optimizer, factor in ((precise, 1), ("sgd", 7)):
        once, seven = (rate(model, optimizer, scaled(scale), PRECISE) for scale in (1, 7))
        assert seven == pytest.approx(once / factor, rel=1e-6)


def test_a_loader_is_read_as_deep_as_the_limit_says() -> None:
    model = resnet()
    data = torch.utils.data.TensorDataset(*(torch.cat(parts) for parts in zip(*BATCHES, strict=True)))
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    assert rate(model, batches=loader) == pytest.approx(rate(model))
    assert suggest_rate(model, loader, F.cross_entropy, limit=3).rate == pytest.approx(rate(model, batches=BATCHES[:3]))


def test_batches_that_agree_on_hardly_anything_are_named() -> None:
    def inner(output: Tensor, target: Tensor) -> Tensor:
        return (output * target).mean()

    ways = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    for factor, noisy in ((-0.5, True), (0.0, True), (0.5, False)):  # what the second half learns, of the first's
        batches = [(X, ways), (X, factor * ways + 1e-6), (X, ways)]
        found = suggest_rate(resnet(), batches, inner)
        assert persistent_energy(resnet(), batches, inner).noisy is noisy
        assert any("agree on hardly anything" in note for note in found.notes) is noisy
        assert found.rate > 0


@pytest.mark.parametrize(
    ("options", "factor"),
    [
        ({"momentum": 0.9}, 1 / 10),
        ({"momentum": 0.9, "nesterov": True}, 1 / (1.9 * 10)),  # the first step is 1.9 gradients, the long run's 10
        ({"momentum": 0.9, "dampening": 0.9}, 1.0),
        ({"momentum": 0.5}, 1 / 2),
    ],
)
def test_momentum_leads_to_the_middle_between_the_first_step_and_the_long_run(options: dict, factor: float) -> None:
    model = resnet().double()
    found = suggest_rate(model, PRECISE, F.cross_entropy, lambda p: torch.optim.SGD(p, lr=1e-3, **options))
    assert found.rate == pytest.approx(math.sqrt(factor) * rate(model, batches=PRECISE), rel=1e-6)
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
    model, stem = resnet().double(), dict(stem)
    first, *rest = model.parameters()
    first.requires_grad_(not stem.pop("frozen", False))

    def optimizer(**options):
        groups = [{"params": [first], **stem, **options}, {"params": rest, **body, **options}]
        return torch.optim.SGD(groups, lr=1e-3)

    found = suggest_rate(model, PRECISE, F.cross_entropy, optimizer())
    plain = rate(model, optimizer(momentum=0.0), batches=PRECISE)
    assert found.rate == pytest.approx(math.sqrt(factor) * plain, rel=1e-6)
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


def test_optimizers_that_were_not_compared_are_named() -> None:
    found = suggest_rate(resnet(), BATCHES, F.cross_entropy, torch.optim.RMSprop)
    assert any("not for RMSprop" in note for note in found.notes)


def test_everything_is_left_as_it_was() -> None:
    model = resnet(dropout=0.3, batch_norm=True).train()
    F.cross_entropy(model(X), Y).backward()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    state = {n: t.clone() for n, t in model.state_dict().items()}
    gradients = {n: p.grad.clone() for n, p in model.named_parameters()}
    random_state, groups = torch.get_rng_state(), [dict(g) for g in optimizer.param_groups]
    first = suggest_rate(model, BATCHES, F.cross_entropy, optimizer)
    assert suggest_rate(model, BATCHES, F.cross_entropy, optimizer) == first
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


def headless() -> nn.Module:
    model = resnet()
    nn.init.zeros_(model.head.weight)
    return model


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (resnet, {"batches": []}, "batches is empty"),
        (resnet, {"batches": (X, Y)}, "batches holds 1, .* three or more"),
        (resnet, {"batches": [(X * math.nan, Y)] * 3}, "loss is nan"),
        (resnet, {"loss_fn": scaled(math.inf)}, "loss is inf"),
        (nn.ReLU, {}, "no parameters"),
        (lambda: "model", {}, "torch.nn.Module"),
        (resnet, {"loss_fn": scaled(0.0)}, "gradient is zero"),
        (headless, {}, "readout is zero"),
        (Huge, {"loss_fn": lambda out, y: out.mean()}, "persistent energy is (inf|nan), .* check the init"),
        (resnet, {"optimizer": "sdg"}, "unknown optimizer"),
        (lambda: STEPPED, {"optimizer": stepped(STEPPED)}, "taken steps already"),
        (resnet, {"optimizer": lambda p: torch.optim.SGD(p, momentum=1.0)}, "never settles"),
    ],
)
def test_what_gives_no_rate_gets_one_sentence(model, options: dict, message: str) -> None:
    with pytest.raises(DepthlrError, match=message) as caught:
        rate(model(), **options)
    assert "\n" not in str(caught.value)


def test_it_prints_its_interval_and_its_assumptions() -> None:
    found = suggest_rate(resnet(), BATCHES, F.cross_entropy)
    assert str(found).startswith(f"{found.rate:.3g} (80% {found.low:.3g} to {found.high:.3g})\nnote: ")
    assert found.measure in found._repr_html_()
