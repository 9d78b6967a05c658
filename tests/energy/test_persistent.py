"""Persistent energy: a dense reference, the laws it obeys, what it leaves alone, what it refuses."""

from __future__ import annotations

import copy
import math
import random
from statistics import fmean, stdev

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.over_seeds import persistent_energy_over_seeds
from tests.reference import dense_persistent_energy
from torch import Tensor, nn

from depthlr.data import batch_order, load_digits
from depthlr.energy import PersistentEnergy, persistent_energy, update_energy, update_energy_over_seeds
from depthlr.energy.batches import GRADIENT_BATCHES
from depthlr.energy.persistent import LEAST_SHARE
from depthlr.errors import DepthlrError
from depthlr.init import init_
from depthlr.models.convolution import CNN, ResNet
from depthlr.models.mlp import MLP
from depthlr.models.vit import ViT
from depthlr.optimizers import make_optimizers

Batches = list[tuple[Tensor, Tensor]]
DRAWS = 150  # of random batches, where a law is about a mean
VIT = {"blocks": 1, "width": 4, "heads": 2, "inputs": 1, "size": 4, "patch": 2, "classes": 3, "ratio": 2, "norm": "pre"}
MODELS = {
    "mlp": lambda: MLP(layers=3, width=5, inputs=16, classes=3, bias=True),
    "cnn": lambda: CNN(layers=2, width=3, inputs=1, classes=3),
    "resnet+bn+dropout": lambda: ResNet(blocks=2, width=3, inputs=1, classes=3, batch_norm=True, dropout=0.3),
    "vit": lambda: ViT(**VIT, dropout=0.2, drop_path=0.5),
}
OPTIMIZERS = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01),
    "momentum": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda model: torch.optim.Adam(model.parameters(), lr=0.1),
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.05),
    "muon": lambda model: make_optimizers("muon", model, 0.1),
}


def drawn(count: int, size: int = 4, dtype: torch.dtype = torch.float64) -> Batches:
    generator = torch.Generator().manual_seed(count)
    return [
        (
            torch.randn(size, 1, 4, 4, dtype=dtype, generator=generator),
            torch.randint(3, (size,), generator=generator),
        )
        for _ in range(count)
    ]


def made(name: str = "mlp") -> nn.Module:
    return init_(MODELS[name]().double(), drawn(1)[0][0], seed=1)


def energy(model: nn.Module, batches: Batches, optimizer="sgd", loss_fn=F.cross_entropy, **options) -> float:
    return persistent_energy(model, batches, loss_fn, optimizer, **options).energy


def precise_adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), eps=1e-30)


# -- what it is ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_it_is_a_dense_jacobian_times_two_real_steps(name: str, optimizer: str) -> None:
    model, batches = made(name), drawn(5)
    found = persistent_energy(model, batches, F.cross_entropy, OPTIMIZERS[optimizer], seed=3)
    dense = dense_persistent_energy(model, batches, F.cross_entropy, OPTIMIZERS[optimizer], seed=3)
    assert (found.energy, found.total) == pytest.approx(dense, rel=1e-9)
    assert found.energy != 0


@pytest.mark.parametrize("count", [3, 4, 6, 18])
def test_any_number_of_batches_is_learnt_from(count: int) -> None:
    model, batches = made(), drawn(count)
    found = persistent_energy(model, batches, F.cross_entropy, OPTIMIZERS["adam"])
    assert found.batches == count - 1
    dense = dense_persistent_energy(model, batches, F.cross_entropy, OPTIMIZERS["adam"], seed=0)
    assert (found.energy, found.total) == pytest.approx(dense, rel=1e-9)


def test_it_is_the_limit_of_real_steps() -> None:
    model, batches, rate = MLP(layers=3, width=8, inputs=16, classes=3, activation="tanh").double(), drawn(7), 1e-6
    x = batches[-1][0]
    before, changes = model(x).detach(), []
    for half in (batches[:-1:2], batches[1:-1:2]):
        moved = copy.deepcopy(model)
        loss = sum(F.cross_entropy(moved(inputs), target) for inputs, target in half) / len(half)
        loss.backward()
        torch.optim.SGD(moved.parameters(), lr=rate).step()
        changes.append((moved(x).detach() - before) / rate)
    limit = float((changes[0] * changes[1]).mean() / before.square().mean())
    assert energy(model, batches) == pytest.approx(limit, rel=1e-4)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", MODELS)
def test_of_one_batch_again_and_again_it_is_the_update_energy_relative_to_the_readout(name, optimizer) -> None:
    model, batch = made(name).eval(), drawn(1)[0]  # eval: dropout would make them different batches
    once = update_energy(model, batch, F.cross_entropy, optimizer, seed=2)
    found = persistent_energy(model, [batch] * 4, F.cross_entropy, optimizer, seed=2)
    assert found.energy == pytest.approx(once.readout / once.readout_mean_square, rel=1e-9)
    assert found.total == pytest.approx(found.energy, rel=1e-9)
    assert not found.noisy
    assert found.mean_square == pytest.approx(once.readout_mean_square, rel=1e-12)
    assert found.loss == pytest.approx(once.loss, rel=1e-12)


def of(energy: float, total: float, mean_square: float = 1.0, loss: float = 1.0) -> PersistentEnergy:
    return PersistentEnergy(energy=energy, total=total, mean_square=mean_square, loss=loss, batches=4)


def test_the_rate_is_where_it_is_one() -> None:
    assert of(4.0, 5.0).rate == 0.5


@pytest.mark.parametrize("energy", [LEAST_SHARE * 15.9, 0.0, -3.0])
def test_where_noise_hides_it_the_rate_is_that_of_the_least_share(energy: float) -> None:
    assert of(energy, 16.0).noisy
    assert of(energy, 16.0).rate == pytest.approx((LEAST_SHARE * 16) ** -0.5)
    assert not of(LEAST_SHARE * 16.1, 16.0).noisy


def test_the_loss_is_the_mean_over_what_was_learnt_from() -> None:
    model, batches = made(), drawn(4)
    found = persistent_energy(model, batches, F.cross_entropy)
    with torch.no_grad():
        assert found.loss == pytest.approx(fmean(F.cross_entropy(model(x), y).item() for x, y in batches[:-1]))
        assert found.mean_square == pytest.approx(model(batches[-1][0]).square().mean().item())


# -- laws ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("optimizer", "power"), [("sgd", 2), ("momentum", 2), (precise_adam, 0)])
def test_scaling_the_loss_multiplies_sgds_by_the_square_and_leaves_adams(optimizer, power: int) -> None:
    model, batches = made(), drawn(5)
    scaled = energy(model, batches, optimizer, lambda output, y: 7 * F.cross_entropy(output, y))
    assert scaled == pytest.approx(7**power * energy(model, batches, optimizer), rel=1e-6)


class Times(nn.Module):
    def __init__(self, model: nn.Module, factor: float) -> None:
        super().__init__()
        self.model, self.factor = model, factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * self.model(x)


def test_a_readout_that_starts_smaller_moves_as_far_relative_to_its_size() -> None:
    model, batches = made(), drawn(5)
    tenth = Times(model, 0.1)
    assert energy(tenth, batches, precise_adam, lambda out, y: F.cross_entropy(10 * out, y)) == pytest.approx(
        energy(model, batches, precise_adam), rel=1e-6
    )


def test_it_does_not_depend_on_the_rate_of_the_optimizer() -> None:
    model, batches = made(), drawn(5)
    found = [
        energy(model, batches, lambda model, r=rate: torch.optim.AdamW(model.parameters(), lr=r))
        for rate in (1e-4, 1.0, 30.0)
    ]
    assert found == pytest.approx([found[0]] * 3, rel=1e-9)


def test_order_inside_a_half_and_of_the_halves_does_not_matter_and_what_is_in_them_does() -> None:
    model, batches = made(), drawn(7)
    true = energy(model, batches, "adam")
    for order in ((4, 1, 2, 5, 0, 3, 6), (1, 0, 3, 2, 5, 4, 6)):
        assert energy(model, [batches[i] for i in order], "adam") == pytest.approx(true, rel=1e-9)
    assert energy(model, [batches[i] for i in (1, 0, 2, 3, 4, 5, 6)], "adam") != pytest.approx(true, rel=1e-3)


def inner(output: Tensor, target: Tensor) -> Tensor:
    """Its gradient is the target's alone, so what is learnt is known."""
    return -(output * target).sum(1).mean()


def linear_draws(learnt: Tensor, noise: float) -> tuple[list[PersistentEnergy], list[float]]:
    """Energies of x -> W x for targets A x + noise, over many draws; and the update energies of their first batches."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3, bias=False).double()
    found, updates = [], []
    for _ in range(DRAWS):
        inputs = [torch.randn(8, 4).double() for _ in range(5)]
        batches = [(x, x @ learnt.T + noise * torch.randn(8, 3)) for x in inputs]
        found.append(persistent_energy(model, batches, inner))
        updates.append(update_energy(model, batches[0], inner, probe=batches[-1]).readout)
    return found, updates


def away(values: list[float], true: float) -> float:
    """How many standard errors their mean lies above the truth."""
    return (fmean(values) - true) / (stdev(values) / math.sqrt(len(values)))


def test_of_targets_drawn_at_random_the_mean_is_zero_though_that_of_update_energy_is_not() -> None:
    found, updates = linear_draws(torch.zeros(3, 4).double(), noise=1.0)
    assert abs(away([one.energy for one in found], 0)) < 4
    assert away(updates, 0) > 10
    assert {one.energy > 0 for one in found} == {True, False}
    assert all(one.energy <= one.total for one in found)
    assert fmean(one.noisy for one in found) > 0.5


def test_what_remains_in_the_mean_is_what_batches_agree_on() -> None:
    learnt = torch.randn(3, 4, generator=torch.Generator().manual_seed(1)).double()
    found, updates = linear_draws(learnt, noise=3.0)
    true = float(learnt.square().sum()) / 3  # E (A x)^2: the mean step is A, since the inputs' covariance is 1
    assert abs(away([one.energy * one.mean_square for one in found], true)) < 4
    assert away(updates, true) > 10


def test_more_batches_leave_less_noise() -> None:
    torch.manual_seed(0)
    model, spread = nn.Linear(4, 3, bias=False).double(), []
    for count in (3, 17):
        draws = [[(torch.randn(8, 4).double(), torch.randn(8, 3).double()) for _ in range(count)] for _ in range(40)]
        spread.append(stdev(energy(model, batches, loss_fn=inner) for batches in draws))
    assert spread[0] > 4 * spread[1]


def test_half_and_single_precision_agree_with_double() -> None:
    model = MLP(layers=3, width=32, inputs=64)
    digits = load_digits()
    batches = [digits.batch(indices) for indices in batch_order(len(digits), 64, 5, 0)]
    true = energy(copy.deepcopy(model).double(), [(x.double(), y) for x, y in batches])
    assert energy(model, batches) == pytest.approx(true, rel=1e-4)
    brief = [(x.bfloat16(), y) for x, y in batches]
    assert energy(copy.deepcopy(model).bfloat16(), brief) == pytest.approx(true, rel=0.1)


def test_the_seed_decides_dropout_and_stochastic_depth() -> None:
    model, batches = made("vit"), drawn(3)
    assert energy(model, batches, seed=1) == energy(model, batches, seed=1) != energy(model, batches, seed=2)
    assert energy(model.eval(), batches, seed=1) == energy(model, batches, seed=2)


def test_dropout_is_noise_that_the_halves_do_not_share() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3, bias=False)).double()
    x, way = torch.randn(4, 4).double(), torch.ones(4, 3).double()
    batch = torch.cat([x, x]), torch.cat([way, -way])  # without dropout the gradient is zero
    found = [persistent_energy(model, [batch] * 5, inner, seed=10 * draw) for draw in range(DRAWS)]
    assert abs(away([one.energy * one.mean_square for one in found], 0)) < 4
    assert fmean(one.noisy for one in found) > 0.5


def test_half_precision_gradients_are_summed_in_single_precision() -> None:
    model = nn.Linear(2, 1, bias=False)
    batches = [(torch.ones(2, 2), torch.zeros(2)) for _ in range(9)]

    def steep(output: Tensor, _: Tensor) -> Tensor:
        return 30_000 * output.float().mean()  # two such gradients do not fit

    true = energy(model, batches, loss_fn=steep)
    assert energy(model.half(), [(x.half(), y) for x, y in batches], loss_fn=steep) == pytest.approx(true, rel=0.02)


def test_a_loss_of_one_entry_is_a_number() -> None:
    model, batches = made(), drawn(5)
    found = energy(model, batches, loss_fn=lambda out, y: F.cross_entropy(out, y).view(1))
    assert found == energy(model, batches)


# -- what it takes ------------------------------------------------------------------------------------------------
class Pair(nn.Module):
    """Reads two inputs, and returns its loss where it is given labels."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(16, 5), nn.Linear(5, 3)

    def forward(self, left: Tensor, right: Tensor, labels: Tensor | None = None) -> Tensor | dict[str, Tensor]:
        logits = self.head(torch.tanh(self.body((left - right).flatten(1))))
        return logits if labels is None else {"loss": F.cross_entropy(logits, labels), "logits": logits}


def test_tuples_and_mappings_are_inputs() -> None:
    torch.manual_seed(0)
    model = Pair().double()
    batches = [((x, x.flip(0)), y) for x, y in drawn(5)]
    mappings = [{"left": x, "right": other, "labels": y} for (x, other), y in batches]
    plain = nn.Sequential(nn.Flatten(), model.body, nn.Tanh(), model.head)
    true = energy(plain, [(x - other, y) for (x, other), y in batches])
    assert energy(model, batches) == pytest.approx(true, rel=1e-9)
    assert energy(model, mappings, loss_fn=lambda output, _: output["loss"]) == pytest.approx(true, rel=1e-9)


class Two(nn.Module):
    """Features, and logits that are made of them."""

    def __init__(self, order: tuple[int, int]) -> None:
        super().__init__()
        self.body, self.head, self.order = nn.Linear(16, 8), nn.Linear(8, 3), order

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        features = self.body(x.flatten(1))
        both = (features, self.head(torch.relu(features)))
        return tuple(both[place] for place in self.order)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_several_outputs_the_readout_is_the_last_that_the_loss_reads(order) -> None:
    torch.manual_seed(0)
    model, batches = Two(order).double(), drawn(5)
    logits = nn.Sequential(nn.Flatten(), model.body, nn.ReLU(), model.head)
    true = energy(logits, batches)
    assert energy(model, batches, loss_fn=lambda out, y: F.cross_entropy(out[order.index(1)], y)) == pytest.approx(true)
    features = nn.Sequential(nn.Flatten(), model.body)

    def square(out: Tensor, _: Tensor) -> Tensor:
        return out.square().mean()

    found = energy(model, batches, loss_fn=lambda out, y: square(out[order.index(0)], y))
    assert found == pytest.approx(energy(features, batches, loss_fn=square))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_frozen_parameters_do_not_move_and_the_others_do(optimizer: str) -> None:
    model, batches = made(), drawn(5)
    alone = energy(model, batches, OPTIMIZERS[optimizer](model.head))
    model.hidden.requires_grad_(False)
    found = energy(model, batches, OPTIMIZERS[optimizer])
    assert found == pytest.approx(alone, rel=1e-9)
    dense, _ = dense_persistent_energy(model, batches, F.cross_entropy, OPTIMIZERS[optimizer], seed=0)
    assert found == pytest.approx(dense, rel=1e-9)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_sparse_gradients_count_as_dense_ones(optimizer: str) -> None:
    generator = torch.Generator().manual_seed(0)
    batches = [(torch.randint(9, (6, 4), generator=generator), y) for _, y in drawn(6, 6)]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, 5), nn.Flatten(), nn.Linear(20, 3)).double()
    dense = energy(model, batches, optimizer)
    model[0].sparse = True
    assert energy(model, batches, optimizer) == pytest.approx(dense, rel=1e-9)


class Switched(nn.Module):
    """Which of its layers runs depends on the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(16, 3), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return (self.one if x.sum() > 0 else self.other)(x.flatten(1))


@pytest.mark.parametrize("signs", [(1, 1, 1, 1, 1), (1, 1, -1, 1, 1), (1, -1, 1, -1, 1)])
def test_batches_that_leave_a_parameter_out_have_no_gradient_there(signs) -> None:
    torch.manual_seed(0)
    model = Switched().double()
    batches = [(x * x.sum().sign() * sign, y) for (x, y), sign in zip(drawn(5), signs, strict=True)]
    dense, _ = dense_persistent_energy(model, batches, F.cross_entropy, OPTIMIZERS["sgd"], seed=0)
    assert energy(model, batches, OPTIMIZERS["sgd"]) == pytest.approx(dense, rel=1e-9)


def test_an_optimizer_object_a_factory_a_class_and_a_name_agree() -> None:
    model, batches = made(), drawn(5)
    true = energy(model, batches, "sgd")
    for given in (
        torch.optim.SGD(model.parameters(), lr=0.3),
        torch.optim.SGD,
        lambda model: torch.optim.SGD(model.parameters(), lr=1e-2),
    ):
        assert energy(model, batches, given) == pytest.approx(true, rel=1e-9)


def test_an_optimizer_that_has_taken_steps_takes_its_next_one() -> None:
    model, batches = made(), drawn(5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in drawn(2):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    changes, x = [], batches[-1][0]
    for half in (batches[:-1:2], batches[1:-1:2]):
        moved, again = copy.deepcopy((model, optimizer))
        again.zero_grad()
        again.param_groups[0]["lr"] = 1e-7
        for inputs, target in half:
            (F.cross_entropy(moved(inputs), target) / len(half)).backward()
        again.step()
        changes.append((moved(x) - model(x)).detach() / 1e-7)
    true = float((changes[0] * changes[1]).mean() / model(x).detach().square().mean())
    assert energy(model, batches, optimizer) == pytest.approx(true, rel=1e-4)


def test_wrappers_are_looked_through() -> None:
    model, batches = made(), drawn(3)
    assert energy(nn.DataParallel(model), batches) == energy(model, batches)


def test_a_loader_is_read_a_few_batches_deep_and_a_list_to_its_end() -> None:
    model, batches = made(), drawn(GRADIENT_BATCHES + 4)
    read = iter(batches)
    assert persistent_energy(model, read, F.cross_entropy).batches == GRADIENT_BATCHES
    assert next(read) is batches[GRADIENT_BATCHES + 1]
    assert energy(model, iter(batches), limit=4) == energy(model, batches[:4])
    assert persistent_energy(model, batches, F.cross_entropy).batches == GRADIENT_BATCHES + 3


def test_gradients_may_be_off_around_it() -> None:
    model, batches = made(), drawn(3)
    with torch.no_grad():
        assert energy(model, batches) == energy(model, batches, loss_fn=lambda out, y: F.cross_entropy(out, y).view(1))


# -- what it leaves alone -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("training", [True, False])
def test_everything_is_left_as_it_was(training: bool) -> None:
    model, batches = made("resnet+bn+dropout").train(training), drawn(5)
    model.head.bias.requires_grad_(False)
    F.cross_entropy(model(batches[0][0]), batches[0][1]).backward()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer.step()
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5)
    state = {n: t.clone() for n, t in model.state_dict().items()}
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    kept = copy.deepcopy(optimizer.state_dict())
    given = copy.deepcopy(batches)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    assert energy(model, batches, optimizer) == energy(model, batches, optimizer)
    assert all(torch.equal(t, state[n]) for n, t in model.state_dict().items())
    assert set(gradients) == {n for n, p in model.named_parameters() if p.grad is not None}
    assert all(torch.equal(p.grad, gradients[n]) for n, p in model.named_parameters() if n in gradients)
    assert optimizer.state_dict()["param_groups"] == kept["param_groups"]
    for place, slots in optimizer.state_dict()["state"].items():
        assert all(torch.equal(torch.as_tensor(v), kept["state"][place][k]) for k, v in slots.items())
    assert all(
        torch.equal(a, b) for one, two in zip(batches, given, strict=True) for a, b in zip(one, two, strict=True)
    )
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert (np.random.get_state()[1] == states[2]).all()  # noqa: NPY002
    assert model.training is training
    assert not model.head.bias.requires_grad
    assert schedule.last_epoch == 0


# -- what it refuses ----------------------------------------------------------------------------------------------
B = drawn(4)
NAN = [(B[0][0] * math.nan, B[0][1])]


def zero_head() -> nn.Module:
    model = made()
    nn.init.zeros_(model.head.weight)
    nn.init.zeros_(model.head.bias)
    return model


def half_frozen() -> nn.Module:
    model = Two((0, 1)).double()
    model.body.requires_grad_(False)
    return model


def read_frozen(output: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
    return output[0].square().mean()


@pytest.mark.parametrize(
    ("build", "batches", "loss_fn", "optimizer", "message"),
    [
        (made, B[0], F.cross_entropy, "sgd", "batches holds 1, .* three or more"),
        (made, B[:2], F.cross_entropy, "sgd", "batches holds 2, .* three or more"),
        (made, [], F.cross_entropy, "sgd", "batches is empty"),
        (made, B[0][0], F.cross_entropy, "sgd", "batches is a Tensor"),
        (made, [*B[:2], B[0][0]], F.cross_entropy, "sgd", "a batch is a pair"),
        (made, [*NAN, *B], F.cross_entropy, "sgd", "the loss is nan"),
        (made, [*B, *NAN, *B], F.cross_entropy, "adam", "the loss is nan"),
        (made, B, lambda out, y: math.inf * F.cross_entropy(out, y), "sgd", "the loss is inf"),
        (made, B, lambda out, y: out.sum() * 0.0, "sgd", "gradient is zero"),
        (zero_head, B, F.cross_entropy, "sgd", "readout is zero on this batch"),
        (made, B, lambda out, y: (out - out.detach()).abs().sqrt().sum(), "sgd", "gradient has NaN"),
        (lambda: made().requires_grad_(False), B, F.cross_entropy, "sgd", "every parameter is frozen"),
        (made, B, lambda out, y: out.nope, "sgd", "loss_fn failed on the model's output"),
        (made, B, lambda out, y: out, "sgd", "must return one number"),
        (made, B, lambda out, y: out.exp().add_(1).mean(), "sgd", r"backward pass failed \(RuntimeError: .*inplace"),
        (made, B, lambda out, y: torch.ones(()), "sgd", "does not depend on any trainable"),
        (made, [(x[:, :, 0], y) for x, y in B], F.cross_entropy, "sgd", "could not run on the example"),
        (made, [*B, (B[0][0][:, :, 0], B[0][1])], F.cross_entropy, "sgd", "could not run on the example"),
        (
            half_frozen,
            [(x.requires_grad_(), y) for x, y in drawn(4)],
            read_frozen,
            "sgd",
            "does not depend on any train",
        ),
        (made, B, F.cross_entropy, "sdg", "the optimizer is 'sdg'"),
        (made, B, F.cross_entropy, torch.optim.LBFGS, "closure"),
        (made, B, F.cross_entropy, torch.optim.SGD(nn.Linear(2, 2).parameters()), "none of the model"),
        (nn.ReLU, B, F.cross_entropy, "sgd", "no parameters"),
        (lambda: nn.LazyLinear(2), B, F.cross_entropy, "sgd", "lazy"),
    ],
)
def test_bad_input_gets_one_sentence_and_the_model_stays(build, batches, loss_fn, optimizer, message: str) -> None:
    model = build()
    lazy = isinstance(model, nn.LazyLinear)
    before = {} if lazy else {n: t.clone() for n, t in model.state_dict().items()}
    random_state = torch.get_rng_state()
    with pytest.raises(DepthlrError, match=message) as caught:
        persistent_energy(model, batches, loss_fn, optimizer)
    assert "\n" not in str(caught.value)
    assert all(torch.equal(model.state_dict()[n], t) for n, t in before.items())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), random_state)


@pytest.mark.parametrize("seed", [None, 0.5, -1, "0"])
def test_a_seed_is_a_whole_number(seed) -> None:
    message = f"The seed is {seed!r}: give a whole number of at least 0"
    for measure in (persistent_energy, update_energy):
        with pytest.raises(DepthlrError, match=message):
            measure(made(), B, F.cross_entropy, seed=seed)
    for over_seeds in (persistent_energy_over_seeds, update_energy_over_seeds):
        with pytest.raises(DepthlrError, match=message):
            over_seeds(made, range(2), B, F.cross_entropy, seed=seed)


@pytest.mark.parametrize("value", [0.0, math.inf, math.nan])
def test_no_rate_is_read_where_nothing_moves_or_the_change_overflows(value: float) -> None:
    with pytest.raises(DepthlrError, match=f"persistent energy is {value:g}, .* check the init") as caught:
        _ = of(value, value).rate
    assert "\n" not in str(caught.value)


def test_a_last_batch_that_is_not_finite_gives_no_rate() -> None:
    with pytest.raises(DepthlrError, match=r"persistent energy is nan, .* check the init"):
        _ = persistent_energy(made(), [*B, *NAN], F.cross_entropy).rate


@pytest.mark.parametrize("seeds", [(), 3, (0, None)])
def test_seeds_are_a_list_of_whole_numbers(seeds) -> None:
    with pytest.raises(DepthlrError, match=r"seeds is .*: give a .*whole number"):
        update_energy_over_seeds(build, seeds, B, F.cross_entropy)


# -- over initializations -----------------------------------------------------------------------------------------
def build() -> nn.Module:
    return MLP(layers=2, width=5, inputs=16, classes=3).double()


def test_over_seeds_every_seed_has_its_own_model() -> None:
    batches, state = drawn(5), torch.get_rng_state()
    found = persistent_energy_over_seeds(build, (3, 4), batches, F.cross_entropy, "adam")
    assert torch.equal(torch.get_rng_state(), state)
    for seed, one in zip((3, 4), found, strict=True):
        torch.manual_seed(seed)
        assert one == persistent_energy(build(), batches, F.cross_entropy, "adam")


def test_over_seeds_options_reach_every_measurement() -> None:
    batches = drawn(5)
    found = persistent_energy_over_seeds(MODELS["vit"], (0,), [(x.float(), y) for x, y in batches], F.cross_entropy)
    other = persistent_energy_over_seeds(
        MODELS["vit"], (0,), [(x.float(), y) for x, y in batches], F.cross_entropy, seed=5
    )
    assert found[0].energy != other[0].energy


def test_over_seeds_a_loader_is_read_once_and_gives_each_its_own() -> None:
    batches = drawn(16)
    read = iter(batches)
    found = persistent_energy_over_seeds(build, range(3), read, F.cross_entropy, limit=5)
    assert next(read) is batches[15]
    for place, one in enumerate(found):
        torch.manual_seed(place)
        assert one == persistent_energy(build(), batches[5 * place : 5 * place + 5], F.cross_entropy)


def test_over_seeds_too_few_batches_are_shared() -> None:
    batches = drawn(8)
    shared = persistent_energy_over_seeds(build, range(3), batches[:5], F.cross_entropy)
    assert shared == persistent_energy_over_seeds(build, range(3), iter(batches), F.cross_entropy, limit=5)
    assert [one.batches for one in shared] == [4, 4, 4]
    assert [one.batches for one in persistent_energy_over_seeds(build, range(3), batches, F.cross_entropy)] == [7, 7, 7]


@pytest.mark.parametrize(
    ("seeds", "batches", "optimizer", "message"),
    [
        ((0,), B, torch.optim.SGD(nn.Linear(2, 2).parameters()), "bound to one model"),
        ((0,), B[:2], "sgd", "three or more"),
        ((0,), [], "sgd", "batches is empty"),
    ],
)
def test_over_seeds_bad_input_gets_one_sentence(seeds, batches, optimizer, message: str) -> None:
    with pytest.raises(DepthlrError, match=message):
        persistent_energy_over_seeds(build, seeds, batches, F.cross_entropy, optimizer)


def test_one_batch_without_a_gradient_stops_nothing() -> None:
    model = nn.Linear(4, 3, bias=False).double()
    empty = (torch.zeros(8, 4, dtype=torch.double), torch.zeros(8, dtype=torch.long))
    batches = [(torch.randn(8, 4, dtype=torch.double), torch.arange(8) % 3) for _ in range(3)]
    assert math.isfinite(persistent_energy(model, [empty, *batches], F.cross_entropy).energy)
    with pytest.raises(DepthlrError, match="gradient is zero everywhere"):
        persistent_energy(model, [empty, empty, batches[0]], F.cross_entropy)
