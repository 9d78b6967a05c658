"""Laws of the update energy, and what it leaves alone."""

from __future__ import annotations

import copy
import random
import threading
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthlr.energy import persistent_energy, update_energy, update_energy_over_seeds
from depthlr.energy.step import step_direction
from depthlr.errors import DepthlrError
from depthlr.init import init_
from depthlr.models.convolution import ResNet
from depthlr.models.mlp import MLP
from depthlr.models.transformer import GPT
from depthlr.models.vit import ViT
from depthlr.optimizers import named_optimizers

X, Y = torch.randn(6, 1, 4, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 1, 0, 2])


def resnet(**options) -> ResNet:
    model = ResNet(**{"blocks": 3, "width": 6, "inputs": 1, "classes": 3, **options})
    return init_(model, X, seed=0)


def sgd(rate: float):
    return lambda model: torch.optim.SGD(model.parameters(), lr=rate)


def energies(model: nn.Module, optimizer="sgd", **options) -> list[float]:
    found = update_energy(model, (X, Y), F.cross_entropy, optimizer, **options)
    return [u.energy for u in found.units]


def test_energy_does_not_depend_on_the_rate_it_was_measured_at() -> None:
    model = resnet().double()
    batch = (X.double(), Y)
    found = [update_energy(model, batch, F.cross_entropy, sgd(r)).mean for r in (1e-4, 1.0, 30.0)]
    assert found == pytest.approx([found[0]] * 3, rel=1e-9)


def test_energy_is_the_limit_of_real_steps_and_quadratic_in_the_rate() -> None:
    model = MLP(layers=3, width=8, inputs=16, classes=3, activation="tanh").double()
    x = X.double()
    measured = update_energy(model, (x, Y), F.cross_entropy, "sgd")
    before = model(x).detach()
    changes = []
    for rate in (1e-4, 2e-4):
        moved = MLP(layers=3, width=8, inputs=16, classes=3, activation="tanh").double()
        moved.load_state_dict(model.state_dict())
        F.cross_entropy(moved(x), Y).backward()
        torch.optim.SGD(moved.parameters(), lr=rate).step()
        changes.append(float((moved(x).detach() - before).square().mean()))
    assert changes[0] / 1e-4**2 == pytest.approx(measured.readout, rel=1e-3)
    assert changes[1] / changes[0] == pytest.approx(4, rel=1e-3)


def test_rate_gives_a_mean_energy_of_one() -> None:
    found = update_energy(resnet(), (X, Y), F.cross_entropy)
    assert found.rate**2 * found.mean == pytest.approx(1)


def test_mean_leaves_the_head_out_and_the_readout_is_the_heads_energy() -> None:
    found = update_energy(resnet(), (X, Y), F.cross_entropy)
    assert [u.unit.role for u in found.units] == ["stem", "body", "body", "body", "head"]
    assert found.mean == pytest.approx(sum(u.energy for u in found.units[:-1]) / 4)
    assert found.units[-1].energy == pytest.approx(found.readout)


def test_scaling_the_loss_scales_sgd_energy_by_its_square_and_leaves_adams() -> None:
    model = resnet().double()
    batch = (X.double(), Y)

    def tripled(output: Tensor, target: Tensor) -> Tensor:
        return 3 * F.cross_entropy(output, target)

    for optimizer, factor in (("sgd", 9.0), (lambda model: torch.optim.Adam(model.parameters(), eps=1e-30), 1.0)):
        once = update_energy(model, batch, F.cross_entropy, optimizer).mean
        assert update_energy(model, batch, tripled, optimizer).mean == pytest.approx(factor * once, rel=1e-6)


def test_several_batches_are_averaged_and_a_loader_is_read_a_few_batches_deep() -> None:
    model = resnet()
    halves = [(X[:3], Y[:3]), (X[3:], Y[3:])]
    each = [update_energy(model, half, F.cross_entropy).mean for half in halves]
    assert update_energy(model, halves, F.cross_entropy).mean == pytest.approx(sum(each) / 2)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=3)
    assert update_energy(model, loader, F.cross_entropy).mean == pytest.approx(sum(each) / 2)
    assert update_energy(model, loader, F.cross_entropy, limit=1).mean == pytest.approx(each[0])


def test_over_seeds_a_loader_is_read_once() -> None:
    halves = [(X[:3], Y[:3]), (X[3:], Y[3:])]

    def build() -> MLP:
        return MLP(layers=2, width=5, inputs=16, classes=3)

    read = iter(halves)
    found = update_energy_over_seeds(build, range(2), read, F.cross_entropy, limit=1)
    assert found == update_energy_over_seeds(build, range(2), halves[0], F.cross_entropy)
    assert next(read) is halves[1]


def test_a_probe_batch_is_measured_instead_of_the_steps_own() -> None:
    model = resnet()
    same = update_energy(model, (X[:3], Y[:3]), F.cross_entropy, probe=(X[:3], Y[:3]))
    other = update_energy(model, (X[:3], Y[:3]), F.cross_entropy, probe=(X[3:], Y[3:]))
    assert same == update_energy(model, (X[:3], Y[:3]), F.cross_entropy)
    assert other.mean != pytest.approx(same.mean, rel=1e-3)


def test_post_norm_units_are_measured_after_the_norm() -> None:
    model = ViT(blocks=2, width=8, heads=2, inputs=1, size=4, patch=2, classes=3, norm="post")
    found = update_energy(init_(model, X, seed=0), (X, Y), F.cross_entropy)
    assert [u.mean_square for u in found.hidden[1:]] == pytest.approx([1.0] * 4, rel=1e-3)
    pre = ViT(blocks=2, width=8, heads=2, inputs=1, size=4, patch=2, classes=3, norm="pre")
    found = update_energy(init_(pre, X, seed=0), (X, Y), F.cross_entropy)
    squares = [u.mean_square for u in found.hidden[1:]]
    assert squares[-1] > 1.5 * squares[0]


def test_token_models_mapping_batches_and_any_loss() -> None:
    model = GPT(blocks=2, width=8, heads=2, vocabulary=11, context=5)
    ids = torch.randint(0, 11, (3, 5))
    as_pair = update_energy(model, (ids, ids), lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()), "adamw")

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gpt = model

        def forward(self, ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
            logits = self.gpt(ids)
            return {"loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}

    as_mapping = update_energy(Wrapped(), {"ids": ids, "labels": ids}, lambda out, batch: out["loss"], "adamw")
    assert [u.energy for u in as_mapping.units] == pytest.approx([u.energy for u in as_pair.units], rel=1e-5)
    assert len(as_pair.units) == 6


def test_everything_touched_is_put_back() -> None:
    model = resnet(batch_norm=True, dropout=0.4)
    model.train()
    model.head.bias.requires_grad_(False)
    F.cross_entropy(model(X), Y).backward()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer.step()
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.0)
    state = {n: t.clone() for n, t in model.state_dict().items()}
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    moments = {id(p): {k: torch.as_tensor(v).clone() for k, v in s.items()} for p, s in optimizer.state.items()}
    groups = [dict(g) for g in optimizer.param_groups]
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    first = energies(model, optimizer)
    assert energies(model, optimizer) == first
    assert all(torch.equal(t, state[n]) for n, t in model.state_dict().items())
    assert all(torch.equal(p.grad, gradients[n]) for n, p in model.named_parameters() if p.grad is not None)
    for parameter, slots in optimizer.state.items():
        assert all(torch.equal(torch.as_tensor(v), moments[id(parameter)][k]) for k, v in slots.items())
    assert [dict(g) for g in optimizer.param_groups] == groups
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert random.getstate() == python_state
    assert model.training
    assert not model.head.bias.requires_grad
    assert schedule.last_epoch == 0


def test_seed_decides_dropout_and_stochastic_depth() -> None:
    model = ViT(blocks=3, width=8, heads=2, inputs=1, size=4, patch=2, classes=3, norm="pre", drop_path=0.5)
    assert energies(model, seed=1) == energies(model, seed=1)
    assert energies(model, seed=1) != energies(model, seed=2)
    assert energies(model.eval(), seed=1) == energies(model, seed=2)


def test_an_optimizer_object_a_factory_a_class_and_a_name_agree() -> None:
    model = resnet()
    for given in (torch.optim.SGD(model.parameters(), lr=0.3), sgd(0.01), torch.optim.SGD):
        assert energies(model, given) == pytest.approx(energies(model, "sgd"), rel=1e-5)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() != 2]
    pair = [torch.optim.Muon(matrices, lr=1e-3, weight_decay=0.0), torch.optim.AdamW(rest, lr=1e-3, weight_decay=0.0)]
    assert energies(model, pair) == pytest.approx(energies(model, "muon"), rel=1e-5)


def test_groups_keep_the_ratio_of_their_rates_and_schedules_are_left_out() -> None:
    model = resnet().double()
    batch = (X.double(), Y)
    head, body = list(model.head.parameters()), [p for n, p in model.named_parameters() if "head" not in n]
    for base in (1.0, 1e-3):
        groups = [{"params": body, "lr": base}, {"params": head, "lr": base / 2}]
        given = torch.optim.SGD(groups)
        torch.optim.lr_scheduler.LambdaLR(given, lambda step: step / 100)
        assert given.param_groups[0]["lr"] == 0.0
        found = update_energy(model, batch, F.cross_entropy, given)
        if base == 1.0:
            first = found
        assert found.readout == pytest.approx(first.readout, rel=1e-9)
    slow = torch.optim.SGD([{"params": body, "lr": 1.0}, {"params": head, "lr": 0.0}])
    assert update_energy(model, batch, F.cross_entropy, slow).mean == pytest.approx(first.mean, rel=1e-9)


def test_frozen_and_foreign_parameters_do_not_move() -> None:
    model = resnet()
    only_head = torch.optim.SGD(model.head.parameters(), lr=1.0)
    found = update_energy(model, (X, Y), F.cross_entropy, only_head)
    assert [u.energy for u in found.hidden] == [0.0] * 4
    assert found.readout > 0
    with pytest.raises(DepthlrError, match="moves no unit before the head"):
        _ = found.rate


class SignOptimizer(torch.optim.Optimizer):
    """A user's own optimizer, with an attribute beside its groups."""

    def __init__(self, parameters, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})
        self.scale = 2.0

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(p.grad.sign(), alpha=-group["lr"] * self.scale)


def test_a_users_own_optimizer_works_as_object_and_factory() -> None:
    model = resnet()
    gradients = {n: torch.randn_like(p) for n, p in model.named_parameters()}
    for given in (SignOptimizer(model.parameters(), lr=0.1), lambda model: SignOptimizer(model.parameters(), lr=0.1)):
        direction = step_direction(given, model, gradients)
        assert all(torch.allclose(d, -2 * gradients[n].sign()) for n, d in direction.items())


def test_step_direction_keeps_its_digits_at_a_tiny_rate_in_single_precision() -> None:
    model = nn.LayerNorm(4, bias=False)
    nn.init.constant_(model.weight, 3.0)
    gradient = {"weight": torch.tensor([1e-6, -2e-6, 3e-6, 0.5])}
    direction = step_direction(lambda model: torch.optim.SGD(model.parameters(), lr=1e-5), model, gradient)
    assert torch.allclose(direction["weight"], -gradient["weight"], rtol=1e-5)


def test_muon_takes_matrices_and_adamw_the_rest() -> None:
    made = named_optimizers("muon", resnet())
    assert [type(o).__name__ for o in made] == ["Muon", "AdamW"]
    assert all(p.dim() == 2 for p in made[0].param_groups[0]["params"])


def test_in_place_activations_do_not_spoil_a_unit() -> None:
    class Net(nn.Module):
        def __init__(self, inplace: bool) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(16, 8), nn.Linear(8, 8), nn.Linear(8, 3)
            self.act = nn.ReLU(inplace=inplace)

        def forward(self, x: Tensor) -> Tensor:
            z = self.a(x.flatten(1))
            z = z + self.b(z.relu())
            return self.c(self.act(z))

    torch.manual_seed(0)
    plain, inplace = Net(False), Net(True)
    inplace.load_state_dict(plain.state_dict())
    assert energies(plain) == energies(inplace)


def test_compiled_models_and_tied_weights() -> None:
    model = resnet()
    assert energies(torch.compile(model)) == energies(model)
    tied = GPT(blocks=1, width=8, heads=2, vocabulary=11, context=5, tied=True)
    ids = torch.randint(0, 11, (3, 5))
    found = update_energy(tied, (ids, ids), lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()))
    assert found.units[0].energy > 0


def test_units_can_be_given_by_class() -> None:
    model = ViT(blocks=2, width=8, heads=2, inputs=1, size=4, patch=2, classes=3, norm="pre")
    by_block = update_energy(model, (X, Y), F.cross_entropy, units=[type(model.blocks[0])])
    full = update_energy(model, (X, Y), F.cross_entropy)
    assert [u.energy for u in by_block.units] == pytest.approx([full.units[i].energy for i in (0, 2, 4, 5)])


def test_over_seeds_reports_median_mean_and_spread() -> None:
    def build() -> nn.Module:
        return init_(ResNet(blocks=2, width=6, inputs=1, classes=3), X)

    state = torch.get_rng_state()
    found = update_energy_over_seeds(build, [0, 1, 2], (X, Y), F.cross_entropy, "adam")
    means = [e.mean for e in found.energies]
    assert len(set(means)) == 3
    assert found.mean_energy.median == sorted(means)[1]
    assert found.mean_energy.mean == pytest.approx(sum(means) / 3)
    assert found.rate == pytest.approx(found.mean_energy.median**-0.5)
    assert found.mean_energy.sd_log10 > 0
    again = update_energy_over_seeds(build, [0, 1, 2], (X, Y), F.cross_entropy, "adam")
    assert again == found
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(DepthlrError, match="bound to one model"):
        update_energy_over_seeds(build, [0], (X, Y), F.cross_entropy, torch.optim.SGD(build().parameters()))


def test_aggregators_and_relative_energy() -> None:
    found = update_energy(resnet(), (X, Y), F.cross_entropy)
    assert found.aggregate("harmonic") <= found.aggregate("geometric") <= found.aggregate("arithmetic") == found.mean
    relative = [u.energy / u.mean_square for u in found.hidden]
    assert found.aggregate(relative=True) == pytest.approx(sum(relative) / len(relative))
    with pytest.raises(DepthlrError, match="The aggregate is 'median': choose from arithmetic, geometric, harmonic"):
        found.aggregate("median")


def test_one_hot_tokens_are_measured_as_they_are_counted() -> None:
    class OneHot(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 4), nn.Linear(4, 3)

        def forward(self, ids: Tensor) -> Tensor:
            return self.b(torch.tanh(self.a(F.one_hot(ids, 8).float())))

    found = update_energy(OneHot(), (torch.arange(6), Y), F.cross_entropy)
    assert [u.energy > 0 for u in found.units] == [True, True]


def test_a_tuple_is_one_batch_with_several_inputs_and_a_list_is_several_batches() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(16, 4), nn.Linear(4, 3)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.b(torch.tanh(self.a((x + y).flatten(1))))

    def loss(output: Tensor, target: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(output, target[0]) + output.mul(target[1]).mean()

    found = update_energy(Sum(), ((X, X), (Y, torch.ones(6, 3))), loss)
    assert found.mean > 0


def test_a_head_that_cannot_move_the_units_is_printed_all_the_same() -> None:
    model = resnet()
    nn.init.zeros_(model.head.weight)
    found = update_energy(model, (X, Y), F.cross_entropy)
    assert "no unit before the head moves" in str(found)


def test_reentrant_checkpoints_are_refused_and_the_others_measured() -> None:
    from torch.utils.checkpoint import checkpoint

    class Saving(nn.Module):
        def __init__(self, reentrant: bool | None) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b, self.c = nn.Linear(16, 8), nn.Linear(8, 8), nn.Linear(8, 3)
            self.reentrant = reentrant

        def forward(self, x: Tensor) -> Tensor:
            z = torch.tanh(self.a(x.flatten(1)))
            inner = self.b(z) if self.reentrant is None else checkpoint(self.b, z, use_reentrant=self.reentrant)
            return self.c(torch.tanh(inner))

    plain = update_energy(Saving(None), (X, Y), F.cross_entropy)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        saving = update_energy(Saving(False), (X, Y), F.cross_entropy)
    # Older PyTorch has no forward-mode derivative of a checkpoint, so a warning says that finite differences are used.
    rel = 1e-3 if any("finite differences" in str(warning.message) for warning in caught) else 1e-6
    assert [unit.energy for unit in saving.units] == pytest.approx([unit.energy for unit in plain.units], rel=rel)
    with pytest.raises(DepthlrError, match="use_reentrant=False"):
        update_energy(Saving(True), (X, Y), F.cross_entropy)


def test_numpys_random_state_is_fixed_and_put_back() -> None:
    class Dropping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(16, 8), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(torch.tanh(self.a(x.flatten(1))) * float(np.random.rand()))  # noqa: NPY002

    model = Dropping()
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    assert energies(model) == energies(model)
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


def zero_gradient(output: Tensor, target: Tensor) -> Tensor:
    return output.sum() * 0.0


def frozen() -> nn.Module:
    model = resnet()
    for p in model.parameters():
        p.requires_grad_(False)
    return model


class Overwriting(nn.Module):
    """Changes what its backward pass needs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        kept = self.layer(x.flatten(1)).exp()
        return kept.add_(1)


class Unfinished(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        raise KeyError("to be written")


class Stumbling(torch.optim.SGD):
    def step(self, closure=None):
        raise AssertionError


class Locked(torch.optim.SGD):
    def __init__(self, parameters) -> None:
        super().__init__(parameters)
        self.lock = threading.Lock()


class Rateless(torch.optim.Optimizer):
    def __init__(self, parameters) -> None:
        super().__init__(parameters, {})


@pytest.mark.parametrize(
    ("build", "batches", "loss_fn", "optimizer", "message"),
    [
        (resnet, (X[:, :, 0], Y), F.cross_entropy, "sgd", "could not run on the example"),
        (resnet, (X * float("nan"), Y), F.cross_entropy, "sgd", "the loss is nan"),
        (lambda: nn.ReLU(), (X, Y), F.cross_entropy, "sgd", "no parameters"),
        (lambda: nn.LSTM(4, 3), (X[0], Y), lambda out, y: out[0].sum(), "sgd", "recurrent"),
        (resnet, (X, Y), zero_gradient, "sgd", "gradient is zero"),
        (resnet, (X, Y), lambda out, y: torch.ones(()), "sgd", "does not depend on any trainable"),
        (resnet, (X, Y), lambda out, y: out, "sgd", "must return one number"),
        (resnet, (X, Y), F.cross_entropy, "sdg", "the optimizer is 'sdg'"),
        (resnet, (X, Y), F.cross_entropy, 0.1, "optimizer is a float"),
        (resnet, (X, Y), F.cross_entropy, torch.optim.LBFGS, "closure"),
        (
            resnet,
            (X, Y),
            F.cross_entropy,
            lambda model: torch.optim.SGD(model.parameters(), learning_rate=1),
            r"not be made .*\(TypeError: .*'learning_rate'\)\.$",
        ),
        (resnet, (X, Y), F.cross_entropy, lambda p: torch.optim.SGD([]), r"not be made .*\(ValueError: .*empty"),
        (
            resnet,
            (X, Y),
            F.cross_entropy,
            Stumbling,
            r"^Stumbling cannot take a step .*\(AssertionError: no message\)\.$",
        ),
        (resnet, (X, Y), F.cross_entropy, Locked, r"^Locked cannot be copied \(TypeError: .*lock"),
        (resnet, (X, Y), F.cross_entropy, Rateless, "has no lr"),
        (resnet, (X, Y), F.cross_entropy, sgd(0.0), "every rate in the optimizer is 0"),
        (resnet, (X, Y), F.cross_entropy, torch.optim.SGD(nn.Linear(2, 2).parameters()), "none of the model"),
        (resnet, [], F.cross_entropy, "sgd", "batches is empty"),
        (resnet, X, F.cross_entropy, "sgd", "batches is a Tensor"),
        (resnet, [X, Y, X], F.cross_entropy, "sgd", "a batch is a pair"),
        (resnet, [(X, Y, Y)], F.cross_entropy, "sgd", "of tensors .*not a tuple of Tensor, Tensor, Tensor"),
        (resnet, [(X.numpy(), Y.numpy())], F.cross_entropy, "sgd", "of tensors .*not a tuple of ndarray, ndarray"),
        (frozen, (X, Y), F.cross_entropy, "sgd", "every parameter is frozen"),
        (Overwriting, (X, Y), F.cross_entropy, "sgd", r"backward pass failed \(RuntimeError: .*inplace operation"),
        (
            resnet,
            (X, Y),
            lambda out, y: Unfinished.apply(out).mean(),
            "sgd",
            r"backward pass failed \(KeyError: 'to be written'\)\.$",
        ),
    ],
)
def test_bad_input_gets_one_sentence_and_the_model_stays(build, batches, loss_fn, optimizer, message: str) -> None:
    model = build()
    before = {n: t.clone() for n, t in model.state_dict().items()}
    random_state = torch.get_rng_state()
    with pytest.raises(DepthlrError, match=message) as caught:
        update_energy(model, batches, loss_fn, optimizer)
    assert "\n" not in str(caught.value)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), random_state)


class Two(nn.Module):
    """Features, and logits that are made of them."""

    def __init__(self, order: tuple[int, int]) -> None:
        super().__init__()
        self.body, self.head, self.order = nn.Linear(4, 8), nn.Linear(8, 3), order

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        features = self.body(x)
        both = (features, self.head(torch.relu(features)))
        return tuple(both[place] for place in self.order)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("uses_features", [False, True])
def test_of_several_outputs_the_readout_is_the_last_that_the_loss_reads(order, uses_features) -> None:
    x, y = torch.randn(16, 4, generator=torch.Generator().manual_seed(0)), torch.arange(16) % 3

    def loss(output: tuple[Tensor, ...], target: Tensor) -> Tensor:
        features, logits = (output[order.index(place)] for place in (0, 1))
        penalty = 1e-3 * features.square().mean() if uses_features else 0.0
        return nn.functional.cross_entropy(logits, target) + penalty

    torch.manual_seed(0)
    model = Two(order)
    alone = nn.Sequential(model.body, nn.ReLU(), model.head)
    found = update_energy(model, (x, y), loss, "sgd")
    assert found.units[-1].unit.path == "head"
    if not uses_features:
        assert found.readout == pytest.approx(update_energy(alone, (x, y), nn.functional.cross_entropy, "sgd").readout)


def test_an_output_that_the_loss_does_not_read_is_no_readout() -> None:
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    found = update_energy(Two((0, 1)), (x, x[:, :1]), lambda output, y: (output[0] - y).square().mean(), "sgd")
    assert found.units[-1].unit.path == "body"


def test_a_penalty_that_reads_the_weights_is_part_of_the_step() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    x = X.double()

    def ridge(output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(output, target) + sum(p.square().sum() for p in model.parameters())

    found = update_energy(model, (x, Y), ridge)
    moved = copy.deepcopy(model)
    gradients = torch.autograd.grad(ridge(model(x), Y), list(model.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(moved.parameters(), gradients, strict=True):
            parameter -= 1e-6 * gradient
        change = (moved(x) - model(x)) / 1e-6
    assert found.readout == pytest.approx(float(change.square().mean()), rel=1e-4)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_hooks_that_are_not_run_are_said_so() -> None:
    model = resnet()
    clipped = torch.optim.SGD(model.parameters(), lr=1.0)
    clipped.register_step_pre_hook(lambda *_: None)
    with pytest.warns(UserWarning, match=r"hooks on the optimizer's step .* are not run"):
        update_energy(model, (X, Y), F.cross_entropy, clipped)
    next(model.parameters()).register_hook(lambda gradient: 2 * gradient)
    with pytest.warns(UserWarning, match="or on parameters are not run"):
        update_energy(model, (X, Y), F.cross_entropy)


def test_a_probe_is_a_batch() -> None:
    with pytest.raises(DepthlrError, match=r"a batch is a pair .* not a Tensor"):
        update_energy(resnet(), (X, Y), F.cross_entropy, probe=X)


def test_a_loaders_list_of_several_inputs_is_one_batch() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(16, 3), nn.Linear(16, 3)

        def forward(self, one: Tensor, other: Tensor) -> Tensor:
            return self.a(one.flatten(1)) + self.b(other.flatten(1))

    torch.manual_seed(0)
    model = Two()
    from_loader = update_energy(model, [[[X, 2 * X], Y]], F.cross_entropy).readout
    assert from_loader == update_energy(model, ((X, 2 * X), Y), F.cross_entropy).readout
    assert from_loader == update_energy(model, [[X, 2 * X], Y], F.cross_entropy).readout


def test_sparse_adam_steps_on_sparse_gradients() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(20, 8, sparse=True), nn.Linear(8, 3)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.table(tokens).mean(1))

    torch.manual_seed(0)
    model, tokens = Tokens(), torch.randint(0, 20, (len(Y), 5))

    def both(p) -> list[torch.optim.Optimizer]:
        return [torch.optim.SparseAdam([model.table.weight], lr=1e-3), torch.optim.Adam(model.head.parameters())]

    found = update_energy(model, (tokens, Y), F.cross_entropy, both)
    model.table.sparse = False  # Adam's first step is its sparse cousin's, on rows that were read
    assert found.readout == pytest.approx(update_energy(model, (tokens, Y), F.cross_entropy, "adam").readout, rel=1e-4)


def test_a_loss_of_several_outputs_is_followed_to_the_deepest() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.aux = nn.Linear(16, 8), nn.Linear(8, 3)
            self.trunk = nn.Sequential(*(nn.Linear(8, 8) for _ in range(3)))
            self.head = nn.Linear(8, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            z = self.stem(x.flatten(1))
            return self.aux(z), self.head(self.trunk(z))

    torch.manual_seed(0)
    found = update_energy(Early(), (X, Y), lambda out, y: F.cross_entropy(out[1], y) + 0.3 * F.cross_entropy(out[0], y))
    assert len(found.units) == 5


def test_a_weight_read_past_its_attribute_is_refused() -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Parameter(torch.randn(16, 3))
            self.weights = [self.stem]

        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1) @ self.weights[0]

    for measure, batches in ((update_energy, (X, Y)), (persistent_energy, [(X, Y)] * 3)):
        with pytest.raises(DepthlrError, match=r"reads its weight stem from elsewhere too.*nn\.ParameterList"):
            measure(Listed(), batches, F.cross_entropy)


@pytest.mark.parametrize(
    "detached", [lambda z: z.detach(), torch.detach, lambda z: z.data], ids=["method", "function", "data"]
)
def test_a_detached_value_changes_with_the_weights_all_the_same(detached) -> None:
    class Scaled(nn.Module):
        """Divides by a norm that no gradient passes: in value it is the other one's twin."""

        def __init__(self, stop: Callable[[Tensor], Tensor]) -> None:
            super().__init__()
            self.stem, self.head, self.stop = nn.Linear(16, 8), nn.Linear(8, 3), stop

        def forward(self, x: Tensor) -> Tensor:
            z = self.stem(x.flatten(1))
            return self.head(torch.tanh(z / self.stop(z).norm(dim=1, keepdim=True)))

    def hidden(z: Tensor) -> Tensor:
        with torch.no_grad():
            return z * 1

    found = []
    for stop in (detached, hidden):
        torch.manual_seed(0)
        decayed = partial(torch.optim.SGD, lr=0.1, weight_decay=1.0)  # a step along the scale, which the norm takes out
        found.append(update_energy(Scaled(stop).double(), (X.double(), Y), F.cross_entropy, decayed))
    assert found[0].readout == pytest.approx(found[1].readout, rel=1e-9)


def test_attention_that_is_one_call_shows_its_in_projection() -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            z = torch.tanh(self.stem(x))
            return self.head(torch.tanh(self.attention(z, z, z)[0]).mean(1))

    class WrittenOut(Hidden):
        def forward(self, x: Tensor) -> Tensor:
            z, own = torch.tanh(self.stem(x)), self.attention
            both = F.linear(z, own.in_proj_weight, own.in_proj_bias).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(*both).transpose(1, 2).flatten(2)
            out = F.linear(mixed, own.out_proj.weight, own.out_proj.bias)
            return self.head(torch.tanh(out).mean(1))

    found = []
    for kind in (Hidden, WrittenOut):
        torch.manual_seed(0)
        found.append(
            [u.energy for u in update_energy(kind().double(), (X.squeeze(1).double(), Y), F.cross_entropy).units]
        )
    assert found[0] == pytest.approx(found[1], rel=1e-9)


@pytest.mark.parametrize("widths", [{}, {"kdim": 5, "vdim": 3}], ids=["packed", "of their own"])
def test_cross_attention_is_measured_too(widths) -> None:
    class Cross(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True, **widths)

        def forward(self, x: Tensor) -> Tensor:
            z = self.stem(x)
            key, value = (z[:, :2, : widths.get(name, 8)] for name in ("kdim", "vdim"))
            return self.head(self.attention(z, key, value)[0].mean(1))

    torch.manual_seed(0)
    units = update_energy(Cross().double(), (X.squeeze(1).double(), Y), F.cross_entropy).units
    assert len(units) == 4
    assert all(unit.energy > 0 for unit in units)
    assert units[1].energy != units[2].energy


def test_a_custom_function_with_a_tangent_is_measured() -> None:
    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x * torch.sigmoid(x)

        @staticmethod
        def slope(x):
            share = torch.sigmoid(x)
            return share + x * share * (1 - share)

        @staticmethod
        def backward(ctx, change):
            return change * Swish.slope(ctx.saved_tensors[0])

        @staticmethod
        def jvp(ctx, change):
            return change * Swish.slope(ctx.saved_tensors[0])

    class Own(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return Swish.apply(x)

    found = []
    for activation in (nn.SiLU(), Own()):
        torch.manual_seed(0)
        layers = [nn.Flatten(), nn.Linear(16, 8), activation, nn.Linear(8, 8), activation, nn.Linear(8, 3)]
        model = nn.Sequential(*layers).double()
        found.append([u.energy for u in update_energy(model, (X.double(), Y), F.cross_entropy).units])
    assert found[0] == pytest.approx(found[1], rel=1e-9)
