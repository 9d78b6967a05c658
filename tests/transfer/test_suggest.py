"""A suggested rate: what it is, what leaves it alone, and what is refused."""

from __future__ import annotations

import math
from functools import partial
from statistics import geometric_mean, stdev

import pytest
import torch
import torch.nn.functional as F
from tests.over_seeds import persistent_energy_over_seeds
from torch import Tensor, nn

from depthlr import DepthlrError, Recipe, init_, persistent_energy, suggest_rate
from depthlr.data.batches import random_batches
from depthlr.energy.initializations import EVAL_MODE_NOTE, SAME_WEIGHTS_NOTE, draw_models
from depthlr.energy.persistent import LARGE_ERROR, readout_size_note
from depthlr.energy.step import LARGEST_GROUP
from depthlr.models.convolution import ResNet
from depthlr.transfer.suggest import BALANCED, ENERGY_ALONE, RECURRENT_NOTE, SCHEDULE_NOTES, predicted_fall

BATCHES = random_batches(torch.zeros(1, 1, 6, 6), (1, 3), 8, 5, seed=0)
PRECISE = [(x.double(), y) for x, y in BATCHES]
X, Y = BATCHES[0]


def misspelt(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), learning_rate=1)


def resnet(**options) -> nn.Module:
    return init_(ResNet(**{"blocks": 3, "width": 6, "inputs": 1, "classes": 3, **options}), X, seed=0)


def scaled(factor: float):
    return lambda output, target: factor * F.cross_entropy(output, target)


def rate(model, optimizer="sgd", loss_fn=F.cross_entropy, batches=BATCHES, **options) -> float:
    return suggest_rate(model, batches, loss_fn, optimizer, **options).rate


@pytest.mark.parametrize("schedule", SCHEDULE_NOTES)
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "muon"])
def test_it_is_a_fixed_multiple_of_the_middle_between_energy_one_and_the_whole_loss(
    optimizer: str, schedule: str
) -> None:
    model = resnet()
    energy = persistent_energy(model, BATCHES, F.cross_entropy, optimizer)
    fall = predicted_fall(model, BATCHES[0], F.cross_entropy, optimizer)
    found = suggest_rate(model, BATCHES, F.cross_entropy, optimizer, schedule=schedule)
    calibration = BALANCED.calibrations[schedule]
    one, whole = energy.energy**-0.5, energy.loss / fall
    assert found.rate**2 == pytest.approx(10 ** (2 * calibration.decades) * one * whole)
    assert math.log10(found.high / found.rate) == pytest.approx(calibration.interval)
    assert found.low * found.high == pytest.approx(found.rate**2)
    assert (float(found), found.measure) == (found.rate, f"{10**calibration.decades:.2g} times {BALANCED.measure}")
    assert SCHEDULE_NOTES[schedule] in found.notes


@pytest.mark.parametrize(
    ("schedule", "calibrated"), [("wsd", "warmup-cosine"), ("warmup", "constant"), (None, "constant")]
)
def test_a_recipe_holds_all_that_a_suggestion_needs(schedule, calibrated) -> None:
    recipe = Recipe(resnet, BATCHES, F.cross_entropy, "adamw", schedule)
    found = suggest_rate(recipe, seeds=2)
    assert found == suggest_rate(resnet, BATCHES, F.cross_entropy, "adamw", schedule=calibrated, seeds=2)


def test_entries_beside_a_recipe_and_recipes_without_a_model_or_batches_are_refused() -> None:
    recipe = Recipe(resnet, BATCHES, F.cross_entropy, "adamw")
    with pytest.raises(DepthlrError, match="write them into the recipe"):
        suggest_rate(recipe, optimizer="sgd")
    with pytest.raises(DepthlrError, match="the recipe has 12: build the model"):
        suggest_rate(recipe.replace(build=12))
    with pytest.raises(DepthlrError, match="measured on batches"):
        suggest_rate(recipe.replace(batches=None))


def test_a_schedule_that_was_never_tuned_is_refused() -> None:
    with pytest.raises(
        DepthlrError, match=r"no calibration for the schedule 'cosine': choose constant or warmup-cosine"
    ):
        suggest_rate(resnet(), BATCHES, F.cross_entropy, schedule="cosine")


def test_of_a_function_it_is_the_geometric_mean_over_initializations() -> None:
    def build() -> nn.Module:
        return init_(ResNet(blocks=3, width=6, inputs=1, classes=3), X, seed=int(torch.randint(100, ())))

    found = suggest_rate(build, BATCHES, F.cross_entropy, seeds=4)
    energies = persistent_energy_over_seeds(build, range(4), BATCHES, F.cross_entropy)
    falls = [predicted_fall(model, BATCHES[0], F.cross_entropy) for model in draw_models(build, range(4))]
    own = [math.sqrt(energy.rate * energy.loss / fall) for energy, fall in zip(energies, falls, strict=True)]
    calibration = BALANCED.calibrations["constant"]
    assert found.rate == pytest.approx(10**calibration.decades * geometric_mean(own))
    scatter = stdev(map(math.log10, own)) / 2
    assert math.log10(found.high / found.rate) == pytest.approx(math.hypot(calibration.interval, 1.28 * scatter))
    assert any("initializations scatter" in note for note in found.notes) is (scatter > LARGE_ERROR)


def test_a_loss_below_zero_leaves_the_energy_alone() -> None:
    model = resnet()
    found = suggest_rate(model, BATCHES, lambda output, target: F.cross_entropy(output, target) - 5)
    energy = persistent_energy(model, BATCHES, F.cross_entropy)
    calibration = ENERGY_ALONE.calibrations["constant"]
    assert found.rate == pytest.approx(10**calibration.decades * energy.rate)
    assert math.log10(found.high / found.rate) == pytest.approx(calibration.interval)
    assert any("left out of the measure" in note for note in found.notes)


def test_scaling_the_loss_leaves_adams_rate_and_divides_sgds() -> None:
    model = resnet().double()

    def precise(model):
        return torch.optim.Adam(model.parameters(), eps=1e-30)

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
        assert any("have hardly anything in common" in note for note in found.notes) is noisy
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
    found = suggest_rate(model, PRECISE, F.cross_entropy, partial(torch.optim.SGD, lr=1e-3, **options))
    assert found.rate == pytest.approx(math.sqrt(factor) * rate(model, batches=PRECISE), rel=1e-6)
    assert any("momentum" in note for note in found.notes) is (factor < 1)


@pytest.mark.parametrize(
    ("stem", "body", "factor"),
    [
        ({"momentum": 0.9, "lr": 0.0}, {"momentum": 0.5}, 0.5),
        ({"momentum": 0.9, "frozen": True}, {"momentum": 0.5}, 0.5),
        ({"momentum": 1.0, "frozen": True}, {}, 1.0),
        ({"momentum": 0.9}, {"momentum": 0.5}, 0.1),
        ({"momentum": 0.9, "lr": 0.0, "initial_lr": 1e-3}, {}, 0.1),
    ],
)
def test_only_groups_that_move_count_and_the_largest_momentum_rules(stem, body, factor) -> None:
    model, stem = resnet().double(), dict(stem)
    first, *rest = model.parameters()
    first.requires_grad_(not stem.pop("frozen", False))

    def optimizer(**options):
        groups = [{"params": [first], **stem, **options}, {"params": rest, **body, **options}]
        return torch.optim.SGD(groups, lr=1e-3)

    found = suggest_rate(model, PRECISE, F.cross_entropy, optimizer())
    plain = rate(model, optimizer(momentum=0.0), batches=PRECISE)
    assert found.rate == pytest.approx(math.sqrt(factor) * plain, rel=1e-6)


@pytest.mark.parametrize("first", ["frozen", "empty", "zero"])
def test_the_rate_is_that_of_the_largest_group_that_moves(first: str) -> None:
    model = resnet().double()
    stem, *rest = model.parameters()
    stem.requires_grad_(first != "frozen")
    groups = [{"params": [] if first == "empty" else [stem], "lr": 0.0 if first == "zero" else 1.0}]
    body, head = rest[:-1], rest[-1:]
    if first == "empty":
        body = [stem, *body]
    found = suggest_rate(
        model,
        PRECISE,
        F.cross_entropy,
        torch.optim.SGD([*groups, {"params": body, "lr": 0.01}, {"params": head, "lr": 0.02}]),
    )
    alone = torch.optim.SGD([{"params": body, "lr": 0.01}, {"params": head, "lr": 0.02}])
    assert found.rate == pytest.approx(rate(model, alone, batches=PRECISE), rel=1e-6)
    assert LARGEST_GROUP in found.notes


def test_factories_may_tell_parameters_apart_by_identity() -> None:
    model = resnet().double()
    head = model.head.weight

    def factory(model):
        given = list(model.parameters())
        groups = [
            {"params": [p for p in given if p is not head]},
            {"params": [p for p in given if p is head], "lr": 10.0},
        ]
        return torch.optim.SGD(groups, lr=1.0)

    assert rate(model, factory, batches=PRECISE) == pytest.approx(
        rate(model, factory(model), batches=PRECISE), rel=1e-9
    )
    assert rate(model, factory, batches=PRECISE) > 1.1 * rate(model, batches=PRECISE)  # of the head


class Writing(nn.Module):
    """Triples its input, in place or not."""

    def __init__(self, inside: nn.Module, in_place: bool) -> None:
        super().__init__()
        self.inside, self.in_place = inside, in_place

    def forward(self, x: Tensor) -> Tensor:
        return self.inside(x.mul_(3) if self.in_place else x * 3)


def test_models_that_write_into_their_input_are_measured_alike() -> None:
    given = [(x.clone(), y) for x, y in BATCHES]
    found = [rate(Writing(resnet(), in_place), batches=given) for in_place in (False, True)]
    assert found[0] == found[1]
    assert all(torch.equal(x, kept) for (x, _), (kept, _) in zip(given, BATCHES, strict=True))


def test_an_embedding_that_shortens_its_weights_keeps_them() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, 6, max_norm=1.0), nn.Flatten(), nn.Linear(24, 3))
    before = model[0].weight.detach().clone()
    batches = [(torch.randint(9, (8, 4)), torch.randint(3, (8,))) for _ in range(4)]
    assert suggest_rate(model, batches, F.cross_entropy).rate > 0
    assert torch.equal(model[0].weight, before)


class Complex(nn.Module):
    """One linear map of the plane, as a complex number or as a matrix."""

    def __init__(self, as_complex: bool) -> None:
        super().__init__()
        self.as_complex = as_complex
        weight = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        self.weight = nn.Parameter(torch.view_as_complex(weight) if as_complex else weight)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight if self.as_complex else torch.view_as_complex(self.weight)
        return (x.to(weight.dtype) @ weight.T).abs()


def test_complex_weights_count_with_both_parts() -> None:
    draw = torch.Generator().manual_seed(1)
    inputs = torch.randn(5, 8, 4, generator=draw, dtype=torch.float64)
    batches = [(x, x[:, :3].argmax(1)) for x in inputs]
    assert rate(Complex(True), batches=batches) == pytest.approx(rate(Complex(False), batches=batches))


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


def heavy(parameters) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def stepped(model: nn.Module, make=heavy) -> torch.optim.Optimizer:
    optimizer = make(model.parameters())
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
        (lambda: "model", {}, "a function that builds the model is wanted, not a str"),
        (lambda: lambda size: size, {}, r"builds the model failed \(TypeError"),
        (lambda: lambda: 3, {}, "gave a int"),
        (lambda: resnet, {"optimizer": torch.optim.SGD(resnet().parameters())}, "bound to one model"),
        (lambda: resnet, {"seeds": 0}, "number of seeds"),
        (lambda: resnet, {"seed": None}, "The seed is None: give a whole number"),
        (resnet, {"seed": 1.5}, "The seed is 1.5: give a whole number"),
        (resnet, {"loss_fn": scaled(0.0)}, "gradient is zero"),
        (headless, {}, "readout is zero"),
        (Huge, {"loss_fn": lambda out, y: out.mean()}, "persistent energy is (inf|nan), .* check the init"),
        (resnet, {"optimizer": "sdg"}, "the optimizer is 'sdg'"),
        (lambda: STEPPED, {"optimizer": stepped(STEPPED)}, "taken steps already"),
        (lambda: STEPPED, {"optimizer": stepped(STEPPED, torch.optim.Adam)}, "taken steps already"),
        (resnet, {"optimizer": torch.optim.RAdam}, "plain SGD's, .* measure Adam"),
        (
            resnet,
            {"optimizer": misspelt},
            r"not be made .*\(TypeError",
        ),
        (
            lambda: resnet,
            {"optimizer": misspelt},
            r"not be made .*\(TypeError",
        ),
        (resnet, {"optimizer": torch.optim.SparseAdam}, "SparseAdam cannot take a step .*dense gradients"),
        (resnet, {"optimizer": lambda model: torch.optim.SGD(model.parameters(), momentum=1.0)}, "never settles"),
        (resnet, {"optimizer": lambda model: torch.optim.SGD(model.parameters(), maximize=True)}, "leave out maximize"),
        (
            lambda: resnet,
            {"optimizer": partial(torch.optim.Adam, maximize=True)},
            "leave out maximize",
        ),
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


def test_a_readout_of_a_size_that_was_never_compared_is_said() -> None:
    model = resnet()
    assert readout_size_note([persistent_energy(model, BATCHES, F.cross_entropy)]) is None
    with torch.no_grad():
        model.head.weight.mul_(1e-3)
    (note,) = (note for note in suggest_rate(model, BATCHES, F.cross_entropy).notes if "mean square" in note)
    assert "signals vanish, or the head starts near zero" in note
    with torch.no_grad():
        model.head.weight.mul_(1e5)
    assert any("signals grow" in note for note in suggest_rate(model, BATCHES, F.cross_entropy).notes)


def test_eval_mode_is_said() -> None:
    model = resnet(batch_norm=True)
    assert EVAL_MODE_NOTE not in suggest_rate(model, BATCHES, F.cross_entropy).notes
    assert EVAL_MODE_NOTE in suggest_rate(model.eval(), BATCHES, F.cross_entropy).notes
    assert EVAL_MODE_NOTE in suggest_rate(lambda: resnet().eval(), BATCHES, F.cross_entropy, seeds=2).notes


def test_a_function_that_gives_one_model_is_said() -> None:
    model = resnet()
    assert SAME_WEIGHTS_NOTE in suggest_rate(lambda: model, BATCHES, F.cross_entropy, seeds=2).notes
    drawn = lambda: ResNet(blocks=3, width=6, inputs=1, classes=3)  # noqa: E731
    assert SAME_WEIGHTS_NOTE not in suggest_rate(drawn, BATCHES, F.cross_entropy, seeds=2).notes


def test_a_new_adagrad_has_taken_no_step() -> None:
    model = resnet()
    optimizer = torch.optim.Adagrad(model.parameters())
    assert suggest_rate(model, BATCHES, F.cross_entropy, optimizer).rate > 0
    F.cross_entropy(model(X), Y).backward()
    optimizer.step()
    with pytest.raises(DepthlrError, match="has taken steps already"):
        suggest_rate(model, BATCHES, F.cross_entropy, optimizer)


class Recurrent(nn.Module):
    """A layer that goes along the rows, or a cell that is led along them."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.recurrent, self.head = kind(6, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, 1)
        if isinstance(self.recurrent, nn.RNNBase):
            return self.head(self.recurrent(rows)[0][:, -1])
        state = None
        for row in rows.unbind(1):
            state = self.recurrent(row, state)
        return self.head(state)


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN, nn.GRUCell, nn.RNNCell])
def test_recurrence_is_said(kind: type[nn.Module]) -> None:
    assert RECURRENT_NOTE in suggest_rate(Recurrent(kind), BATCHES, F.cross_entropy).notes
    assert RECURRENT_NOTE in suggest_rate(lambda: Recurrent(kind), BATCHES, F.cross_entropy, seeds=2).notes
    assert RECURRENT_NOTE not in suggest_rate(resnet(), BATCHES, F.cross_entropy).notes
