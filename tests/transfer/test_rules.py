"""Rules are objects with one method, and the short form `transfer_rate` calls them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

import depthlr
from depthlr.energy.persistent import DrawnRate
from depthlr.errors import DepthlrError
from depthlr.init.plan import init_
from depthlr.law import RULES, fit_power_law
from depthlr.law.carried_rate import AS_INIT, CONSTANT_EVIDENCE, UNSEEN, CarriedRate
from depthlr.law.rules import CONSTANT_EXPONENT
from depthlr.trace.depth import TIED, Depth, Flag
from depthlr.transfer.recipe import MeasuredModel
from depthlr.transfer.rules import AmMup, ByDepth, Constant, Fitted, Law, Measured, Recipe, make_rule, transfer_rate
from experiments.realbench import judge
from experiments.realbench.scores import Tuned
from experiments.transferbench import rules as transferbench
from experiments.transferbench.table import comparison
from experiments.transferbench.tasks import TASKS

ROOT = Path(__file__).parents[2]


def net(layers: int) -> nn.Module:
    hidden = [module for _ in range(layers) for module in (nn.Linear(16, 16), nn.ReLU())]
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), *hidden, nn.Linear(16, 4))


def batches(count: int = 8) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(16, 8, generator=generator), torch.randint(4, (16,), generator=generator)) for _ in range(count)
    ]


SMALL = Recipe(
    build=lambda: net(1), batches=batches(), loss_fn=nn.functional.cross_entropy, optimizer="adamw", steps=100
)
LARGE = SMALL.replace(build=lambda: net(3))


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.exponent_adam is not None])
def test_a_rule_between_depths_is_the_short_form(name: str) -> None:
    carried = ByDepth(RULES[name], "adam").carry(0.1, Recipe(10), Recipe(20))
    assert carried == transfer_rate(0.1, 10, 20, rule=name, family="adam")


@pytest.mark.parametrize("rule", [Law(), Measured(seeds=2), ByDepth(RULES["depth-mup"])], ids=str)
def test_a_rule_between_recipes_is_the_short_form_between_their_parts(rule) -> None:
    name = "measured" if isinstance(rule, Measured) else rule.rule.name
    short = transfer_rate(
        0.1,
        SMALL.build,
        LARGE.build,
        rule=name,
        batches=SMALL.batches,
        loss_fn=SMALL.loss_fn,
        optimizer="adamw",
        steps=100,
        seeds=2 if name == "measured" else None,
    )
    assert rule.carry(0.1, SMALL, LARGE) == short
    assert transfer_rate(0.1, SMALL, LARGE, rule=rule) == short


def test_recipes_with_batches_are_measured_unless_told_otherwise() -> None:
    assert transfer_rate(0.1, SMALL, LARGE, seeds=2).rule == "measured"
    assert transfer_rate(0.1, Recipe(4), Recipe(8)).rule == "law"


@pytest.mark.parametrize(
    "entry",
    [{"batches": batches()}, {"loss_fn": nn.functional.mse_loss}, {"optimizer": "sgd"}, {"units": [nn.Linear]}],
    ids=lambda entry: next(iter(entry)),
)
def test_entries_beside_two_recipes_are_refused_and_beside_one_belong_to_the_model(entry) -> None:
    with pytest.raises(DepthlrError, match=rf"{next(iter(entry))}= would be ignored: .* recipe.replace"):
        transfer_rate(0.1, SMALL, LARGE, **entry)
    given = {"rule": "law", "example": batches()[0][0]} | entry
    whole = SMALL.replace(build=LARGE.build, **{name: value for name, value in given.items() if name != "rule"})
    assert transfer_rate(0.1, SMALL, LARGE.build, **given) == transfer_rate(0.1, SMALL, whole, rule="law")


@pytest.mark.parametrize("rule", ["measured", "am-mup"])
def test_batches_of_either_side_measure_both_models(rule: str) -> None:
    bare = SMALL.replace(build=SMALL.build(), batches=None)
    given = SMALL.replace(build=LARGE.build())
    whole = given.replace(build=bare.build)
    assert transfer_rate(0.1, bare, given, rule=rule) == transfer_rate(0.1, whole, given, rule=rule)


def test_batches_count_a_model_beside_a_depth() -> None:
    assert transfer_rate(0.1, 6, LARGE.build, batches=batches()).rule == "constant"
    assert transfer_rate(0.1, 4, 16, batches=batches(), seeds=2) == transfer_rate(0.1, 4, 16)


def test_models_that_were_measured_before_are_carried_by_measurement() -> None:
    recipes = SMALL, LARGE
    rule = Measured(seeds=2)
    models = rule.measure(*recipes)
    assert transfer_rate(0.1, *models, seeds=2) == rule.carry(0.1, *recipes)


def test_an_interval_alone_has_evidence() -> None:
    fitted = Fitted(fit_power_law([4, 8, 16], [0.5, 0.4, 0.3], spacing=0.05))
    assert fitted.carry(0.1, Recipe(4), Recipe(16)).evidence == ""
    for name, rule in RULES.items():
        assert bool(rule.evidence) == (rule.error is not None), name


def test_an_example_decides_the_depth_of_a_measured_model_too() -> None:
    with pytest.raises(DepthlrError, match="the model could not run on the example"):
        transfer_rate(0.1, SMALL.replace(example="nonsense"), LARGE, rule="measured", seeds=1)


def test_models_without_a_depth_are_refused_before_they_are_measured() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.lstm(x.unsqueeze(1))[0][:, -1])

    losses = []

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        losses.append(nn.functional.cross_entropy(output, target))
        return losses[-1]

    with pytest.raises(DepthlrError, match="recurren"):
        transfer_rate(0.1, Recurrent, Recurrent, rule="measured", batches=batches(), loss_fn=loss, seeds=1)
    assert not losses


def test_what_a_depth_says_nothing_about_is_not_called_initialized_by_init() -> None:
    model = LARGE.build()
    init_(model, batches()[0][0])
    assert transfer_rate(0.1, 6, model, batches()[0][0], rule="law").initialization == UNSEEN
    assert transfer_rate(0.1, model, model, batches()[0][0], rule="law").initialization == AS_INIT


def test_a_depth_rule_is_taken_as_a_rule() -> None:
    assert transfer_rate(0.1, 4, 8, rule=RULES["law"]) == transfer_rate(0.1, 4, 8, rule="law")


@pytest.mark.parametrize("option", [{"family": "sgd"}, {"aggregate": "harmonic"}, {"seed": 1}, {"seeds": 2}], ids=str)
def test_options_beside_a_rule_that_is_an_object_are_refused(option) -> None:
    with pytest.raises(DepthlrError, match=f"{next(iter(option))}= would be ignored: pass it to the rule's class"):
        transfer_rate(0.1, 4, 8, rule=Law(), **option)


@pytest.mark.parametrize(
    ("rule", "option"),
    [("law", {"seeds": 2}), ("constant", {"aggregate": "harmonic"}), ("measured", {"family": "sgd"})],
    ids=str,
)
def test_options_that_a_named_rule_does_not_have_are_refused(rule: str, option) -> None:
    with pytest.raises(DepthlrError, match=f"The rule '{rule}' has no option {next(iter(option))}="):
        transfer_rate(0.1, 4, 8, rule=rule, **option)


@pytest.mark.parametrize("rule", ["law", "measured", "am-mup"])
def test_each_model_is_counted_by_its_own_units(rule: str) -> None:
    torch.manual_seed(0)
    small, large = SMALL.replace(build=net(1)), SMALL.replace(build=Halves(3), units=[Half])
    carried = transfer_rate(0.1, small, large, rule=rule)
    assert (carried.source_depth, carried.target_depth) == (3, 5)  # 8 plain layers in the target


class Half(nn.Module):
    """Two plain layers, which its author counts as one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Halves(nn.Module):
    def __init__(self, halves: int) -> None:
        super().__init__()
        self.stem = nn.Linear(8, 16)
        self.body = nn.Sequential(*(Half() for _ in range(halves)))
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.stem(x).relu()))


@pytest.mark.parametrize("long", [{"steps": 1000}, {"schedule": "warmup-cosine"}])
@pytest.mark.parametrize("end", [0, 1])
def test_long_runs_and_schedules_take_the_constant_exponent_at_either_end(long, end: int) -> None:
    recipes = [SMALL, SMALL.replace(build=lambda: net(3))]
    recipes[end] = recipes[end].replace(**long)
    carried = transfer_rate(0.1, *recipes)
    assert carried == Constant().carry(0.1, *recipes)
    assert carried.rate == pytest.approx(0.1 * (5 / 3) ** CONSTANT_EXPONENT)
    same = transfer_rate(0.1, *(recipe.replace(**long) for recipe in recipes))
    assert same.low < same.rate == carried.rate < same.high
    assert same.evidence == CONSTANT_EVIDENCE


class Tied(nn.Module):
    """Its head is its embedding."""

    def __init__(self, layers: int, width: int = 8) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, width)
        self.hidden = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(self.hidden(self.embedding(ids)), self.embedding.weight)


def test_the_constant_exponents_interval_holds_with_tied_embeddings_but_not_across_widths() -> None:
    small, large, wide = (
        Recipe(Tied(layers, width), example=torch.zeros(2, 3, dtype=torch.long))
        for layers, width in ((1, 8), (3, 8), (3, 16))
    )
    assert Constant().carry(0.1, small, large).low is not None
    assert Law().carry(0.1, small, large).low is None
    assert Constant().carry(0.1, small, wide).low is None


@pytest.mark.parametrize(("kind", "held"), [(TIED, True), ("weight sharing", False), ("long skip", False)])
def test_a_flag_counts_by_its_kind_and_not_by_its_words(kind: str, held: bool) -> None:
    source, target = (Depth(size, size, flagged=(Flag(kind, "a sentence"),)) for size in (4, 8))
    carried = transfer_rate(0.1, source, target, rule="constant", schedule="warmup-cosine")
    assert (carried.in_scope, carried.low is not None) == (held, held)
    assert carried.notes == (() if held else ("a sentence",))


@pytest.mark.parametrize("in_scope", [True, False])
def test_a_measurement_says_whether_it_is_in_scope_and_its_notes_do_not(in_scope: bool) -> None:
    rate = DrawnRate(-1.0, 0.05, noisy=False)
    source, target = (MeasuredModel(Depth(size, size), rate, ("a note",), in_scope=in_scope) for size in (4, 8))
    carried = Measured().carry_measured(0.1, source, target)
    assert (carried.in_scope, carried.notes) == (in_scope, ("a note",))


def test_am_mup_compares_models() -> None:
    torch.manual_seed(0)
    small, large = SMALL.replace(build=net(1)), LARGE.replace(build=net(3))
    carried = AmMup().carry(0.1, small, large)
    ratio = [depthlr.update_energy(one.build, one.batches, one.loss_fn, "adamw").rate for one in (small, large)]
    assert carried.factor == pytest.approx(ratio[1] / ratio[0], rel=1e-6)
    built = [one.replace(build=partial(copy.deepcopy, one.build)) for one in (small, large)]
    assert AmMup().carry(0.1, *built).factor == pytest.approx(carried.factor, rel=1e-6)


def test_a_fitted_rule_follows_the_users_own_sweep_with_its_interval() -> None:
    depths, rates = [4, 4, 8, 8, 16, 16], [0.11, 0.1, 0.08, 0.07, 0.05, 0.055]
    fit = fit_power_law(depths, rates, spacing=0.05)
    carried = Fitted(fit).carry(0.1, Recipe(4), Recipe(16))
    assert carried.rate == pytest.approx(0.1 * 4**fit.slope)
    assert carried.low < carried.rate < carried.high
    assert carried.coverage == fit.level


@dataclass(frozen=True)
class HalfPower:
    """A rule of one's own: rate ~ depth^(-1/2)."""

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        depths = source.depth().total, target.depth().total
        factor = (depths[1] / depths[0]) ** -0.5
        return CarriedRate(rate * factor, "half-power", *depths, factor, "The rate falls as depth^(-1/2).")


def test_a_rule_of_ones_own_is_one_class_and_one_row_in_every_table() -> None:
    assert transfer_rate(0.1, 4, 16, rule=HalfPower()).rate == pytest.approx(0.05)
    assert transfer_rate(0.1, SMALL, LARGE, rule=HalfPower()).rate == pytest.approx(0.1 * (5 / 3) ** -0.5)
    short_tasks = transferbench.RULES | {"half-power": transferbench.library(HalfPower())}
    table = comparison(TASKS, "dev", short_tasks, "measured", ROOT / "results" / "transferbench")
    assert "\n| half-power | 10 |" in table
    recipes = [Tuned(name, {1: -2.0, 4: -2.2}, {1: 4, 4: 16}, 0.01, ()) for name in "abc"]
    real = judge.verdict(recipes, judge.RULES | {"half-power": HalfPower()})
    assert "| copy | constant exponent | law | half-power |" in real
    assert "| a | -0.33 | 0.01 | 0.20 | 0.08 | 0.70 | 0.10 |" in real


def test_a_recipe_is_changed_by_replacing_entries() -> None:
    assert SMALL.replace(steps=1000).steps == 1000
    assert LARGE.batches is SMALL.batches
    assert (depthlr.Recipe, depthlr.rules.Law()) == (Recipe, Law())


def test_an_unknown_rule_is_a_sentence() -> None:
    with pytest.raises(DepthlrError, match="There is no rule 'typo'"):
        make_rule("typo")
