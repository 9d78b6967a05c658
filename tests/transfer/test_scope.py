"""What a rule says of runs and recipes unlike those that it was compared on."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from depthlr import DepthlrError, Recipe, init_, transfer_rate
from depthlr.energy.step import LARGEST_GROUP
from depthlr.law import RULES
from depthlr.law.carried_rate import (
    AS_INIT,
    CONSTANT_FINDINGS,
    CONSTANT_RATE,
    FAR,
    FEW_STEPS,
    MANY_STEPS,
    UNKNOWN_SCHEDULE,
    VERY_FEW_STEPS,
)

EXAMPLE = torch.zeros(2, 8)
BATCHES = [(torch.randn(16, 8), torch.randint(4, (16,))) for _ in range(3)]
DEPTH_RULES = [name for name, rule in RULES.items() if rule.exponent_adam is not None]


class Net(nn.Module):
    """Residual blocks whose head may be its embedding."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(8, 16), nn.Linear(16, 4)
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x.relu())
        return self.head(x)


class Tied(nn.Module):
    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.embedding, self.body = nn.Embedding(5, 8), Net(blocks)
        self.body.head = nn.Identity()
        self.out = nn.Linear(16, 8)

    def forward(self, ids: Tensor) -> Tensor:
        return nn.functional.linear(self.out(self.body(self.embedding(ids))), self.embedding.weight)


SMALL = Recipe(Net(2), BATCHES, nn.functional.cross_entropy, "adamw", "warmup-cosine", 2000)
LARGE = SMALL.replace(build=Net(8))


@pytest.mark.parametrize(
    ("schedule", "steps", "said"),
    [
        ("warmup-cosine", 2000, set()),
        ("warmup-cosine", None, set()),
        (None, None, {UNKNOWN_SCHEDULE}),
        ("warmup-cosine", 99, {VERY_FEW_STEPS}),
        ("warmup-cosine", 100, {FEW_STEPS}),
        ("warmup-cosine", 999, {FEW_STEPS}),
        ("warmup-cosine", 12_001, {MANY_STEPS}),
        (None, 2000, {UNKNOWN_SCHEDULE}),
        (None, 150, {UNKNOWN_SCHEDULE, FEW_STEPS}),
        ("constant", 2000, {CONSTANT_RATE}),
        ("warmup", 2000, {CONSTANT_RATE}),
        ("warmup-constant", 100, {CONSTANT_RATE}),
        ("constant", None, {CONSTANT_RATE}),
        ("constant", 100, {CONSTANT_RATE}),
    ],
)
def test_the_constant_exponent_says_where_the_run_is_unlike_those_it_was_fitted_on(schedule, steps, said) -> None:
    given = {"schedule": schedule, "steps": steps, "rule": "constant"}
    models = transfer_rate(0.1, SMALL.replace(**_run(given)), LARGE.replace(**_run(given)), rule="constant")
    for carried in (transfer_rate(0.1, 10, 20, **given), models):
        assert {name for name, found in CONSTANT_FINDINGS.items() if found.sentence in carried.notes} == said
        assert carried.in_scope is (carried.low is not None) is not bool(said & {CONSTANT_RATE, VERY_FEW_STEPS})
    assert RULES["constant"].carry_depths(0.1, 10, 20, **_run(given)) == transfer_rate(0.1, 10, 20, **given)


def test_depths_farther_apart_than_those_it_was_fitted_on_are_a_note() -> None:
    near, far = (transfer_rate(0.1, 6, depth, steps=2000, schedule="linear") for depth in (34, 35))
    assert near.notes == ()
    assert far.notes == (CONSTANT_FINDINGS[FAR].sentence,)
    assert far.low is not None


def _run(given) -> dict:
    return {name: given[name] for name in ("schedule", "steps")}


def test_steps_alone_are_a_note_by_default_and_a_constant_rate_is_out_of_scope() -> None:
    assert transfer_rate(0.1, 10, 20, steps=2000).low is not None
    assert transfer_rate(0.1, 10, 20, steps=2000, schedule="constant").low is None
    assert transfer_rate(0.1, 10, 20, steps=100, schedule="constant") == transfer_rate(0.1, 10, 20)  # the law


@pytest.mark.parametrize("drawn", [(0,), (1,), (0, 1)])
def test_the_constant_exponent_was_not_fitted_on_models_that_init_drew(drawn) -> None:
    models = [
        init_(Net(2), EXAMPLE, seed=0) if 0 in drawn else Net(2),
        init_(Net(8), EXAMPLE) if 1 in drawn else Net(8),
    ]
    carried = transfer_rate(0.1, *models, EXAMPLE, schedule="warmup-cosine", steps=2000)
    assert carried.notes == (CONSTANT_FINDINGS[AS_INIT].sentence,)
    assert (carried.rule, carried.in_scope, carried.low) == ("constant", False, None)


@pytest.mark.parametrize("rule", [*DEPTH_RULES, "measured", "am-mup"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"steps": 200_000}, "steps differ (2000 against 200000)"),
        ({"schedule": "linear"}, "schedules differ (warmup-cosine against linear)"),
        ({"optimizer": "sgd"}, "optimizers differ (adamw against sgd)"),
        ({"batches": [(x[:2], y[:2]) for x, y in BATCHES]}, "batch sizes differ (16 against 2)"),
        ({"batches": DataLoader(TensorDataset(*BATCHES[0]), 4)}, "batch sizes differ (16 against 4)"),
        (
            {"optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=1.0)},
            "optimizers differ (AdamW against SGD)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_recipes_that_differ_in_more_than_the_model_are_out_of_scope(rule: str, change, said: str) -> None:
    carried = transfer_rate(0.1, SMALL, LARGE.replace(**change), rule=rule)
    assert any(note.startswith(said) for note in carried.notes)
    assert (carried.in_scope, carried.low, carried.evidence) == (False, None, "")


def test_recipes_that_hardly_differ_or_do_not_say_are_not_told_apart() -> None:
    same = transfer_rate(0.1, SMALL, LARGE, rule="constant")
    assert same.in_scope
    for change in ({"steps": 2999}, {"steps": None}, {"optimizer": torch.optim.AdamW}):
        assert transfer_rate(0.1, SMALL, LARGE.replace(**change), rule="constant").low is not None
    assert transfer_rate(0.1, SMALL, LARGE.build, rule="constant") == same  # a model beside a recipe is of that recipe
    assert transfer_rate(0.1, SMALL.build, LARGE, rule="constant") == same


@pytest.mark.parametrize("rule", [*DEPTH_RULES, "measured"])
def test_layer_wise_decay_over_other_numbers_of_layers_is_out_of_every_rules_scope(rule: str) -> None:
    def decayed(model: Net) -> torch.optim.Optimizer:
        parameters = list(model.parameters())
        groups = [{"params": [one], "lr": 0.1 * 0.75**place} for place, one in enumerate(reversed(parameters))]
        return torch.optim.AdamW(groups)

    carried = transfer_rate(0.1, SMALL.replace(optimizer=decayed), LARGE.replace(optimizer=decayed), rule=rule)
    assert any("are not the same in every model" in note for note in carried.notes)
    assert carried.notes[-1].startswith(f"carried rates: AdamW {carried.rate:.3g} and ")
    assert not carried.in_scope


@pytest.mark.parametrize("rule", [*DEPTH_RULES, "measured", "am-mup"])
@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (lambda model: 1 / 0, "the optimizer could not be made for this model"),
        (lambda model: None, "optimizer is a NoneType"),
        (lambda model: {"lr": 1.0}, "optimizer is a dict"),
    ],
    ids=["raises", "None", "dict"],
)
def test_every_rule_refuses_an_optimizer_that_cannot_be_made(rule: str, end: int, factory, said: str) -> None:
    recipes = [SMALL, LARGE]
    recipes[end] = recipes[end].replace(optimizer=factory)
    with pytest.raises(DepthlrError, match=said):
        transfer_rate(0.1, *recipes, rule=rule)


@pytest.mark.parametrize("rule", DEPTH_RULES)
def test_an_optimizer_of_another_model_is_refused(rule: str) -> None:
    of_source = torch.optim.AdamW(SMALL.build.parameters(), lr=0.1)
    with pytest.raises(DepthlrError, match="steps another model's parameters"):
        transfer_rate(0.1, SMALL.replace(optimizer=of_source), LARGE.replace(optimizer=of_source), rule=rule)


def test_a_frozen_model_has_no_groups_to_compare() -> None:
    carried = transfer_rate(0.1, Net(2).requires_grad_(False), Net(8), EXAMPLE, rule="copy")
    assert (carried.rate, carried.notes) == (0.1, ())


@pytest.mark.parametrize("steps", [0, -5, 2.5, "2000", True])
def test_steps_of_a_recipe_are_counted(steps) -> None:
    with pytest.raises(DepthlrError, match=r"steps is .*: give a whole number of at least 1"):
        transfer_rate(0.1, 10, 20, steps=steps)


@pytest.mark.parametrize("schedule", ["", " ", 3, lambda step: 1.0])
def test_a_schedule_is_a_name(schedule) -> None:
    with pytest.raises(DepthlrError, match="schedule is"):
        transfer_rate(0.1, 10, 20, schedule=schedule)


@pytest.mark.parametrize("schedule", ["cosine", "ConstantLR", "inverse_sqrt", "own"])
def test_any_other_name_is_a_schedule(schedule: str) -> None:
    assert transfer_rate(0.1, 10, 20, schedule=schedule).rule == "constant"


@pytest.mark.parametrize("schedule", ["constant", "warmup", "warmup-constant", "constant_with_warmup"])
def test_a_short_run_without_decay_takes_the_rule_of_constant_rates(schedule: str) -> None:
    assert transfer_rate(0.1, 10, 20, schedule=schedule, steps=100).rule == "law"


@pytest.mark.parametrize("batches", [[], [3.0], [()], [{}], [((EXAMPLE, EXAMPLE), EXAMPLE)], iter([])])
def test_batches_whose_size_cannot_be_told_are_not_compared(batches) -> None:
    assert transfer_rate(0.1, SMALL.replace(example=EXAMPLE), LARGE.replace(batches=batches, example=EXAMPLE)).in_scope


def test_a_schedule_that_one_recipe_gives_counts_for_both() -> None:
    carried = transfer_rate(0.1, LARGE.replace(build=10, schedule=None, steps=None), LARGE)
    assert CONSTANT_FINDINGS[UNKNOWN_SCHEDULE].sentence not in carried.notes


@pytest.mark.parametrize("rule", [*DEPTH_RULES, "jelassi", "pathsum"])
def test_a_head_that_is_the_embedding_matters_to_the_law_alone(rule: str) -> None:
    optimizer = "adamw" if rule in DEPTH_RULES else "sgd"
    ids = torch.zeros(2, 3, dtype=torch.long)
    carried = transfer_rate(0.1, Tied(2), Tied(8), ids, rule=rule, optimizer=optimizer)
    assert any("weight sharing" in note for note in carried.notes) is (rule == "law")


def test_equal_depths_have_nothing_to_carry() -> None:
    carried = transfer_rate(0.1, Net(2), Net(2), EXAMPLE, rule="constant")
    assert carried.notes[-1].startswith("nothing to carry: both models have 4 units")
    assert (carried.rate, carried.in_scope, carried.low) == (0.1, True, None)
    assert "outside the rule's scope" not in str(carried)


def test_a_trainer_is_told_where_its_recipe_comes_from() -> None:
    class Trainer:
        def get_train_dataloader(self) -> None: ...

    with pytest.raises(DepthlrError, match=r"pass Recipe.from_trainer\(trainer\)"):
        transfer_rate(0.1, Trainer(), Trainer())
    with pytest.raises(DepthlrError, match=r"a recipe, a model or a depth above 0, not 'six'\.$"):
        transfer_rate(0.1, "six", 8)


def test_a_model_that_has_no_example_asks_for_one_or_for_recipes() -> None:
    with pytest.raises(DepthlrError, match="pass example= or batches=, or two recipes with one"):
        transfer_rate(0.1, Net(2), Net(4))


@pytest.mark.parametrize("scheduled", [False, True])
def test_the_rate_of_a_group_is_the_peak_under_one_cycle(scheduled: bool) -> None:
    def made(model):
        weights, rest = ([p for p in model.parameters() if (p.dim() > 1) is matrix] for matrix in (True, False))
        optimizer = torch.optim.AdamW([{"params": weights, "lr": 0.1}, {"params": rest, "lr": 0.01}])
        if scheduled:  # starts at a 25th of the peak
            torch.optim.lr_scheduler.OneCycleLR(optimizer, [0.1, 0.01], total_steps=2000)
        return optimizer

    carried = transfer_rate(0.1, SMALL.replace(optimizer=made), LARGE.replace(optimizer=made))
    assert carried.notes[-1] == f"carried rates: AdamW {carried.rate:.3g} and {carried.rate / 10:.3g}."
    assert not any("the optimizers' largest rate is" in note for note in carried.notes)


def test_a_rate_that_is_not_the_largest_is_not_called_so() -> None:
    def two(model):
        first, *rest = model.parameters()
        return torch.optim.AdamW([{"params": [first], "lr": 0.1}, {"params": rest, "lr": 0.01}])

    notes = transfer_rate(0.01, SMALL.replace(optimizer=two), LARGE.replace(optimizer=two)).notes
    assert any("the optimizers' largest rate is 0.1, not 0.01" in note for note in notes)
    assert LARGEST_GROUP not in notes
