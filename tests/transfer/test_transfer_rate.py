"""Carrying a rate between depths and models."""

import math
import re
import warnings
from dataclasses import replace
from itertools import pairwise, permutations

import pytest
import torch
import torch.nn.functional as F
from tests.over_seeds import persistent_energy_over_seeds
from torch import nn

import depthlr
from depthlr import DepthlrError, init_, persistent_energy, transfer_rate, update_energy, update_energy_over_seeds
from depthlr.data.batches import random_batches
from depthlr.energy.initializations import EVAL_MODE_NOTE
from depthlr.energy.persistent import SEEDS, rate_over_draws
from depthlr.energy.step import LARGEST_GROUP
from depthlr.law.carried_rate import (
    ADAPTIVE,
    AS_INIT,
    AS_IT_IS,
    BATCH_NORM,
    EVIDENCE,
    LAW_ERROR,
    LAW_FINDINGS,
    MEASURED_ERROR,
    MOST_DOUBLINGS,
    NOT_INIT,
    ONE_DRAW_ERROR,
    OTHER_INIT,
    PRE_NORM,
    UNSEEN,
)
from depthlr.law.rules import OPTIMIZER_FAMILIES, RULES
from depthlr.models.build import build
from depthlr.models.convolution import ResNet
from depthlr.transfer.measured import NOT_COMPARED, Measured, MeasuredChange

BATCHES = random_batches(torch.zeros(1, 1, 6, 6), (1, 3), 64, 5, seed=0)
X, Y = BATCHES[0]


def resnet(blocks: int, width: int = 6, seed: int | None = 0) -> ResNet:
    return init_(ResNet(blocks=blocks, width=width, inputs=1, classes=3), X, seed=seed)


def measured(source, target, rate=0.1, batches=BATCHES, loss_fn=F.cross_entropy, optimizer="adam", **options):
    return transfer_rate(rate, source, target, batches=batches, loss_fn=loss_fn, optimizer=optimizer, **options)


@pytest.mark.parametrize(("target", "rate"), [(14, 6.231e-3), (18, 4.274e-3), (22, 3.163e-3), (42, 1.199e-3)])
def test_the_papers_zero_shot_table(target: int, rate: float) -> None:
    assert transfer_rate(2.462e-3, 26, target).rate == pytest.approx(rate, abs=5e-7)


def test_models_and_depths_may_be_mixed() -> None:
    source = resnet(3)
    between = transfer_rate(0.1, source, resnet(6), X)
    counted = transfer_rate(0.1, depthlr.effective_depth(source, X), resnet(6), X)
    assert counted == replace(between, initialization=UNSEEN)  # a depth does not say how its model is initialized
    assert between.rate == transfer_rate(0.1, 5, 8).rate
    assert float(between) == between.rate == pytest.approx(0.1 * (8 / 5) ** -1.5)


@pytest.mark.parametrize("rule", [n for n, r in RULES.items() if r.exponent_sgd is not None])
def test_rules_invert_and_compose(rule: str) -> None:
    there = transfer_rate(0.1, 6, 24, rule=rule)
    assert transfer_rate(there.rate, 24, 6, rule=rule).rate == pytest.approx(0.1)
    half = transfer_rate(0.1, 6, 12, rule=rule).rate
    assert transfer_rate(half, 12, 24, rule=rule).rate == pytest.approx(there.rate)
    assert there.assumes == RULES[rule].assumes


@pytest.mark.parametrize("rule", [n for n, r in RULES.items() if r.counts != "paths"])
@pytest.mark.parametrize("optimizer", OPTIMIZER_FAMILIES)
def test_between_depths_it_is_arithmetic_alone(rule: str, optimizer: str) -> None:
    if RULES[rule].exponent(OPTIMIZER_FAMILIES[optimizer]) is None:
        rule = "law"
    alone = RULES[rule].carry_depths(0.1, 6, 24, OPTIMIZER_FAMILIES[optimizer])
    assert transfer_rate(0.1, 6, 24, rule=rule, optimizer=optimizer) == alone


@pytest.mark.parametrize("optimizer", ["sgd", "adam", torch.optim.AdamW])
def test_measured_rule_keeps_the_persistent_energy(optimizer) -> None:
    source, target = resnet(3), resnet(8)
    carried = measured(source, target, optimizer=optimizer)
    here, there = (persistent_energy(m, BATCHES, F.cross_entropy, optimizer) for m in (source, target))
    assert carried.rate**2 * there.energy == pytest.approx(0.1**2 * here.energy)  # one draw of each: no law
    assert (carried.rule, carried.source_depth, carried.target_depth) == ("measured", 5, 10)
    assert "averaged with the law's" in carried.assumes


def test_measured_rule_inverts_and_of_models_composes() -> None:
    shallow, middle, deep = resnet(2), resnet(4), resnet(8)
    there = measured(shallow, deep)
    assert measured(deep, shallow, there.rate).rate == pytest.approx(0.1)
    assert measured(middle, deep, measured(shallow, middle).rate).rate == pytest.approx(there.rate)
    assert measured(shallow, shallow).factor == 1
    forth = measured(draw(2), draw(5), seeds=3)
    assert measured(draw(5), draw(2), forth.rate, seeds=3).rate == pytest.approx(0.1)


def test_between_widths_the_persistent_energy_is_kept_without_the_law() -> None:
    def wide() -> nn.Module:
        return resnet(5, width=12, seed=None)

    here, there = (
        rate_over_draws(persistent_energy_over_seeds(build, range(3), BATCHES, F.cross_entropy, "adam"))
        for build in (draw(2), wide)
    )
    assert measured(draw(2), wide, seeds=3).factor == pytest.approx(there.rate / here.rate)


def test_a_function_that_gives_one_model_is_one_draw() -> None:
    source, target = resnet(2), resnet(5)
    carried = measured(lambda: source, lambda: target, seeds=3)
    assert carried.factor == pytest.approx(measured(source, target).factor)
    assert [note for note in carried.notes if "the same model every time" in note] == list(carried.notes)


def test_eval_mode_and_a_readout_of_a_strange_size_are_said() -> None:
    source, target = resnet(2), resnet(5)
    assert EVAL_MODE_NOTE in measured(source.eval(), target).notes
    with torch.no_grad():
        target.head.weight.mul_(1e-3)
    assert any("mean square" in note for note in measured(source.train(), target).notes)


def test_a_rate_beyond_what_a_float_holds_is_refused() -> None:
    with pytest.raises(DepthlrError, match="outside what a float can hold"):
        measured(resnet(8), resnet(2), rate=1.7e308)


def test_with_batches_the_default_is_to_measure_and_without_them_the_law() -> None:
    source, target = resnet(2), resnet(4)
    assert measured(source, target) == measured(source, target, rule="measured")
    assert transfer_rate(0.1, source, target, X) == transfer_rate(0.1, source, target, X, rule="law")
    assert measured(source, target, example=X, rule="law", optimizer="sgd") == transfer_rate(0.1, source, target, X)
    assert measured(source, target, example=X, rule="law").rate == transfer_rate(0.1, source, target, X).rate  # Adam


def draw(blocks: int):
    return lambda: resnet(blocks, seed=None)


def misspelt(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), learning_rate=1)


def test_functions_that_build_models_are_carried_by_the_mean_over_initializations() -> None:
    state = torch.get_rng_state()
    carried = measured(draw(2), draw(5), seeds=3, seed=7)
    assert torch.equal(torch.get_rng_state(), state)
    here, there = (
        rate_over_draws(persistent_energy_over_seeds(draw(b), range(7, 10), BATCHES, F.cross_entropy, "adam"))
        for b in (2, 5)
    )
    assert carried.factor == pytest.approx(Measured.change(here, there, 4, 7, one_width=True).factor)
    assert (carried.source_depth, carried.target_depth) == (4, 7)
    assert measured(draw(2), draw(3)) == measured(draw(2), draw(3), seeds=SEEDS)


def two_optimizers(model: nn.Module) -> list[torch.optim.Optimizer]:
    matrices, rest = ([p for p in model.parameters() if (p.dim() == 2) is flat] for flat in (True, False))
    return [torch.optim.SGD(matrices, lr=0.02), torch.optim.AdamW(rest, lr=0.01)]


@pytest.mark.parametrize(
    ("options", "builds"),
    [({"seeds": 3}, 2 * (3 + 1)), ({"rule": "law"}, 2), ({"rule": "constant"}, 2), ({"steps": 500}, 2)],
    ids=str,
)
def test_functions_build_no_more_models_than_are_needed(options, builds: int) -> None:
    built = []

    def counting(blocks: int):
        return lambda: built.append(blocks) or resnet(blocks, seed=None)

    carried = measured(counting(2), counting(5), optimizer=two_optimizers, **options)
    assert len(built) == builds
    assert any("SGD and AdamW step together" in note for note in carried.notes)


def test_one_initialization_of_a_function_is_a_model_and_both_may_be_mixed() -> None:
    torch.manual_seed(7)
    source = resnet(2, seed=None)
    assert measured(source, draw(5), seeds=1, seed=7) == measured(draw(2), draw(5), seeds=1, seed=7)


def test_mappings_are_batches_too() -> None:
    class Named(nn.Module):
        def __init__(self, blocks: int) -> None:
            super().__init__()
            self.model = resnet(blocks)

        def forward(self, image, label):
            logits = self.model(image)
            return {"loss": F.cross_entropy(logits, label), "logits": logits}

    batches = [{"image": x, "label": y} for x, y in BATCHES]
    carried = measured(Named(2), Named(4), batches=batches, loss_fn=lambda output, _: output["loss"])
    assert carried.rate == pytest.approx(measured(resnet(2), resnet(4)).rate)


def test_a_loader_is_read_once_and_models_are_left_as_they_were() -> None:
    source, target = resnet(2), resnet(4)
    state = {n: t.clone() for n, t in source.state_dict().items()}
    assert measured(source, target, batches=iter(BATCHES)) == measured(source, target)
    assert all(torch.equal(t, state[n]) for n, t in source.state_dict().items())
    assert all(p.grad is None for p in source.parameters())


def test_batches_that_agree_on_hardly_anything_are_named() -> None:
    def inner(output, target):
        return (output * target).mean()

    ways = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    batches = [(X, ways), (X, -0.5 * ways), (X, ways)]
    assert any(
        "have hardly anything in common" in note
        for note in measured(resnet(2), resnet(4), batches=batches, loss_fn=inner).notes
    )
    assert measured(resnet(2), resnet(4), batches=[(X, Y)] * 3).notes == ()


class Scattered(nn.Module):
    """Its readout has a scale of its own in every draw."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.model, self.factor = resnet(blocks, seed=None), float(10 ** torch.randn(()))

    def forward(self, x):
        return self.factor * self.model(x)


def test_initializations_that_scatter_are_named() -> None:
    note = "initializations scatter"
    scattered = measured(lambda: Scattered(2), lambda: Scattered(4), optimizer="sgd", seeds=4)
    assert any(note in one and re.search("the law counts for (8|9).%", one) for one in scattered.notes)
    assert not any(note in one for one in measured(lambda: resnet(2), lambda: resnet(4), optimizer="sgd").notes)
    assert not any(note in one for one in measured(Scattered(2), Scattered(4), optimizer="sgd").notes)


def test_am_mup_keeps_the_mean_energy_of_the_first_step() -> None:
    source, target = resnet(3), resnet(8)
    carried = measured(source, target, rule="am-mup", batches=(X, Y))
    here, there = (update_energy(m, (X, Y), F.cross_entropy, "adam") for m in (source, target))
    assert carried.rule == "am-mup"
    assert carried.rate**2 * there.mean == pytest.approx(0.1**2 * here.mean)
    assert transfer_rate(0.1, here, there, rule="am-mup").rate == pytest.approx(carried.rate)
    assert measured(here, target, rule="am-mup", batches=(X, Y)).rate == pytest.approx(carried.rate)
    geometric = measured(source, target, rule="am-mup", batches=(X, Y), aggregate="geometric")
    assert geometric.rate**2 * there.aggregate("geometric") == pytest.approx(0.1**2 * here.aggregate("geometric"))
    assert geometric.rate != pytest.approx(carried.rate, rel=1e-3)


def test_am_mup_reads_a_loader_once() -> None:
    model = resnet(2)
    assert measured(model, model, rule="am-mup", batches=iter(BATCHES)).factor == 1
    assert measured(model, resnet(3), rule="am-mup", batches=iter(BATCHES)) == measured(
        model, resnet(3), rule="am-mup", batches=BATCHES[:4]
    )


def test_am_mup_takes_the_median_over_initializations() -> None:
    here, there = (update_energy_over_seeds(draw(b), range(3), (X, Y), F.cross_entropy, "adam") for b in (2, 5))
    carried = transfer_rate(0.1, here, there, rule="am-mup")
    assert carried.rate == pytest.approx(0.1 * there.rate / here.rate)


def test_law_notes_when_widths_differ_and_measured_does_not() -> None:
    source, target = resnet(3, 6), resnet(6, 12)
    carried = transfer_rate(0.1, source, target, X)
    assert any("widths differ" in note for note in carried.notes)
    assert not transfer_rate(0.1, resnet(3), resnet(6), X).notes
    assert not measured(source, target).notes


def test_a_note_is_printed_once(capfd) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        carried = transfer_rate(0.1, resnet(3, 6), resnet(6, 12), X)
        unsure = measured(resnet(2).eval(), resnet(5))
    print(carried)
    print(unsure)
    said = "".join(capfd.readouterr())
    assert said.count("widths differ") == said.count(EVAL_MODE_NOTE) == 1


class Pyramid(nn.Module):
    """Residual stages of widths 8 and 16, so that the typical width depends on how many blocks each stage has."""

    def __init__(self, narrow: int, wide: int) -> None:
        super().__init__()
        self.stem = nn.Linear(36, 8)
        self.narrow = nn.ModuleList(nn.Linear(8, 8) for _ in range(narrow))
        self.grow = nn.Linear(8, 16)
        self.wide = nn.ModuleList(nn.Linear(16, 16) for _ in range(wide))
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        x = self.stem(x.flatten(1))
        for layer in self.narrow:
            x = x + layer(x).relu()
        x = self.grow(x)
        for layer in self.wide:
            x = x + layer(x).relu()
        return self.head(x)


def test_widths_are_compared_as_sets_so_that_deeper_stages_keep_the_interval() -> None:
    source, target = (init_(Pyramid(*stages), X, seed=0) for stages in ((3, 1), (2, 6)))
    here, there = (depthlr.effective_depth(model, X) for model in (source, target))
    assert here.width != there.width
    assert here.widths == there.widths == {8, 16}
    carried = transfer_rate(0.1, source, target, X)
    assert carried.notes == ()
    assert carried.low is not None
    build = [lambda: init_(Pyramid(3, 1), X), lambda: init_(Pyramid(2, 6), X)]
    checked = depthlr.check_transfer(lambda size: build[size - 1](), [1, 2], BATCHES, F.cross_entropy)
    assert not any("widths" in text for text in (checked.reason, *checked.notes))


def test_pathsum_counts_paths_and_needs_models() -> None:
    carried = transfer_rate(0.1, resnet(2), resnet(4), X, rule="pathsum")
    # sum_k C(K,k)(k+2)^3 by hand: K=2: 8+2*27+64=126; K=4: 8+4*27+6*64+4*125+216=1216
    assert carried.rate == pytest.approx(0.1 * (126 / 1216) ** 0.5)
    with pytest.raises(DepthlrError, match="needs models"):
        transfer_rate(0.1, 4, 6, rule="pathsum")


def test_rules_of_adam_depend_on_the_optimizer() -> None:
    assert transfer_rate(0.1, 4, 16, rule="depth-mup", optimizer="adamw").rate == pytest.approx(0.05)
    assert transfer_rate(0.1, 4, 16, rule="depth-mup", optimizer=torch.optim.AdamW).rate == pytest.approx(0.05)
    assert transfer_rate(0.1, 4, 16, rule="depth-mup").rate == pytest.approx(0.1)
    assert transfer_rate(0.1, 4, 16, rule="completep", family="adam").rate == pytest.approx(0.1)


def test_the_family_is_seen_in_whatever_makes_the_optimizer() -> None:
    for given in (
        lambda model: torch.optim.AdamW(model.parameters()),
        torch.optim.AdamW(nn.Linear(2, 2).parameters()),
        "muon",
    ):
        assert transfer_rate(0.1, 4, 16, rule="depth-mup", optimizer=given).rate == pytest.approx(0.05)
    assert transfer_rate(
        0.1, 4, 16, rule="depth-mup", optimizer=lambda model: torch.optim.SGD(model.parameters())
    ).rate == pytest.approx(0.1)

    class Own(torch.optim.Optimizer):
        def __init__(self, parameters) -> None:
            super().__init__(parameters, {"lr": 1.0})

    with pytest.raises(DepthlrError, match="family="):
        transfer_rate(0.1, 4, 16, rule="depth-mup", optimizer=Own)
    assert transfer_rate(0.1, 4, 16, optimizer=Own).rate == transfer_rate(0.1, 4, 16).rate
    with pytest.raises(DepthlrError, match="the optimizer is 'sdg'"):
        transfer_rate(0.1, 4, 16, rule="depth-mup", optimizer="sdg")


def test_rules_over_residual_updates_count_those_alone() -> None:
    carried = transfer_rate(0.1, resnet(4), resnet(8), X, rule="depth-mup", optimizer="adam")
    assert carried.factor == pytest.approx(2**-0.5)


def test_the_law_counts_what_functions_build_on_an_example_or_a_batch() -> None:
    here, there = resnet(2), resnet(6)
    expected = transfer_rate(0.1, here, there, X)
    state = torch.get_rng_state()
    read = iter(BATCHES)
    assert transfer_rate(0.1, draw(2), draw(6), X) == expected
    assert transfer_rate(0.1, draw(2), there, rule="law", batches=read, loss_fn=F.cross_entropy) == expected
    assert next(read) is BATCHES[1]
    assert transfer_rate(0.1, here, draw(6), rule="law", batches=BATCHES[0]) == expected
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("rule", [None, "law", "constant", "copy", "u-mup", "depth-mup"])
def test_an_unknown_optimizer_or_family_is_refused_by_every_rule_of_depth(rule) -> None:
    with pytest.raises(DepthlrError, match=r"the optimizer is 'adamm' \(did you mean 'adam'"):
        transfer_rate(0.1, 4, 8, rule=rule, optimizer="adamm")
    with pytest.raises(
        DepthlrError, match=r"The optimizer family is 'Adam' \(did you mean 'adam'\?\): choose from sgd, adam"
    ):
        transfer_rate(0.1, 4, 8, rule=rule, family="Adam")


BOUND = torch.optim.SGD(nn.Linear(2, 2).parameters())
ENERGY = update_energy(resnet(2), (X, Y), F.cross_entropy)


def headless() -> ResNet:
    model = resnet(3)
    nn.init.zeros_(model.head.weight)
    return model


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: transfer_rate(0.1, 4, 6, rule="lore"), "no rule 'lore'"),
        (lambda: transfer_rate(-0.1, 4, 6), "rate is .*: give a finite number above 0"),
        (lambda: transfer_rate(float("nan"), 4, 6), "rate is .*: give a finite number above 0"),
        (lambda: transfer_rate(0.1, 0, 6), "above 0"),
        (lambda: transfer_rate("0.1", 4, 6), "rate is .*: give a finite number above 0"),
        (lambda: transfer_rate(0.1, resnet(2), resnet(3), X, rule="pathsum", optimizer="adam"), "about SGD"),
        (
            lambda: transfer_rate(0.1, 4, 6, rule="depth-mup", optimizer=lambda model: torch.optim.SGD(model)),
            "a factory is given the model, such as lambda model",
        ),
        (lambda: transfer_rate(0.1, "vit", 6), "a model or a depth"),
        (lambda: transfer_rate(0.1, resnet(2), 6), "needs an example"),
        (lambda: transfer_rate(0.1, draw(2), 6), "needs an example"),
        (lambda: transfer_rate(0.1, draw(2), lambda: "model", X), "gave a str"),
        (lambda: transfer_rate(0.1, nn.ReLU(), 6, rule="law", batches=BATCHES), "no parameters"),
        (lambda: transfer_rate(0.1, 4, 6, rule="completep"), "prescribes nothing"),
        (lambda: transfer_rate(0.1, 4, 6, rule="depth-mup", optimizer=misspelt), r"not be made .*\(TypeError"),
        (lambda: transfer_rate(0.1, 4, 6, rule="lore"), "choose one of measured, am-mup, copy, constant, law, "),
        (lambda: transfer_rate(0.1, 4, 6, rule="measured"), "'measured' measures and needs two models, not ints"),
        (lambda: transfer_rate(0.1, 4, 6, rule="am-mup"), "'am-mup' measures and needs two models, not ints"),
        (lambda: measured(4, 6, rule="measured"), "needs two models, not ints"),
        (lambda: measured(resnet(2), 6, rule="measured"), "needs two models, not ints"),
        (lambda: measured(ENERGY, ENERGY), "pass rule='am-mup'"),
        (lambda: transfer_rate(0.1, resnet(2), resnet(3), rule="measured"), "needs batches="),
        (lambda: transfer_rate(0.1, resnet(2), resnet(3), rule="am-mup"), "needs batches="),
        (lambda: measured(resnet(2), resnet(3), loss_fn=None), "pass loss_fn="),
        (lambda: measured(resnet(2), resnet(3), batches=(X, Y)), "batches holds 1, .* three or more"),
        (lambda: measured(resnet(2), resnet(3), rate=0.0), "rate is .*: give a finite number above 0"),
        (lambda: measured(draw(2), draw(3), seeds=0), "number of seeds"),
        (lambda: measured(resnet(2), resnet(3), seed=None), "The seed is None: give a whole number"),
        (lambda: measured(resnet(2), draw(3), seed=None), "The seed is None: give a whole number"),
        (lambda: measured(draw(2), lambda: "model"), "gave a str"),
        (lambda: measured(resnet(2), resnet(3), optimizer=BOUND), "bound to one model"),
        (lambda: measured(draw(2), draw(3), optimizer=BOUND), "bound to one model"),
        (lambda: measured(resnet(2), headless(), rule="am-mup", batches=(X, Y)), "moves no unit before the head"),
    ],
)
def test_bad_input_gets_one_sentence(call, message: str) -> None:
    with pytest.raises(DepthlrError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_an_interval_grows_with_the_doublings_of_depth() -> None:
    near, far = transfer_rate(0.1, 4, 8), transfer_rate(0.1, 4, 16)
    assert near.low * near.high == pytest.approx(near.rate**2)
    assert math.log10(near.high / near.rate) == pytest.approx(LAW_ERROR.decades)
    assert math.log10(far.high / far.rate) == pytest.approx(2 * LAW_ERROR.decades)
    back = transfer_rate(0.1, 16, 4)
    assert back.high / back.rate == pytest.approx(far.high / far.rate)
    same = transfer_rate(0.1, 7, 7)
    assert (same.rate, same.low, same.evidence) == (0.1, None, "")


def test_there_is_no_interval_where_nobody_has_compared() -> None:
    assert transfer_rate(0.1, 4, 8, rule="jelassi").low is None
    assert transfer_rate(0.1, 4, 4 * 2**MOST_DOUBLINGS).low is not None
    assert transfer_rate(0.1, 4, 4 * 2**MOST_DOUBLINGS + 1).low is None
    assert transfer_rate(0.1, resnet(2), resnet(5, width=12), X).low is None
    assert measured(resnet(2), resnet(5)).low is not None
    assert measured(resnet(2).eval(), resnet(5)).low is None


@pytest.mark.parametrize(
    ("source", "target", "known"),
    [
        ((2, 6), (2, 12), False),  # width alone
        ((2, 6), (2, 6), False),  # two draws
        ((2, 6), (3, 24), False),  # width more than depth
        ((2, 12), (4, 6), False),  # one up, one down
        ((2, 6), (4, 6), True),
        ((2, 6), (6, 18), True),  # in proportion
        ((6, 18), (2, 6), True),
    ],
)
def test_a_measured_rate_has_an_interval_across_depth_and_width_that_grows_no_more(source, target, known: bool) -> None:
    carried = measured(resnet(*source), resnet(*target, seed=1))
    assert (carried.low is not None) is (carried.high is not None) is known
    assert (NOT_COMPARED in carried.notes) is not known
    assert known or "80%" not in str(carried)


def test_a_measured_rates_interval_is_wider_from_one_draw_and_where_draws_scatter() -> None:
    usual = MeasuredChange(-0.5, 0.05, 0.2)
    assert usual.error_bound(4, 8) == pytest.approx(MEASURED_ERROR.decades)
    assert usual.error_bound(4, 16) == pytest.approx(2**0.5 * MEASURED_ERROR.decades)
    assert MeasuredChange(-0.5, None, 0.0).error_bound(4, 8) == pytest.approx(ONE_DRAW_ERROR.decades)
    assert MeasuredChange(-0.5, 0.4, 0.5).error_bound(4, 8) == pytest.approx(1.28 * 0.5 * 0.4)


def test_it_prints_its_rule() -> None:
    head, evidence = str(transfer_rate(2.462e-3, 26, 14)).splitlines()
    assert head == "0.00623 (law: depth 26 -> 14, x 2.53, 80% 0.00365 to 0.0106)"
    assert evidence == EVIDENCE


def test_steps_and_schedule_choose_the_rule_without_recipes() -> None:
    assert transfer_rate(0.1, 10, 20).rule == transfer_rate(0.1, 10, 20, steps=499).rule == "law"
    assert transfer_rate(0.1, 10, 20, steps=500).rule == "constant"
    assert transfer_rate(0.1, 10, 20, schedule="warmup-cosine").rule == "constant"


DECAY = 0.75


def layer_decay(order=None, *, scaled: bool = False, base: float = 1e-3):
    """A factory of AdamW with layer-wise decay from the head down; `order` gives the places of the groups."""

    def factory(model):
        layers = list(model.parameters())
        scales = [DECAY ** (len(layers) - 1 - place) for place in range(len(layers))]
        rates = [{"lr": base, "lr_scale": s} if scaled else {"lr": base * s} for s in scales]
        groups = [{"params": [p], **rate} for p, rate in zip(layers, rates, strict=True)]
        places = range(len(groups)) if order is None else order(range(len(groups)))
        return torch.optim.AdamW([groups[place] for place in places])

    return factory


def test_layer_wise_decay_gives_one_rate_for_every_order_of_groups() -> None:
    source, target = resnet(1), resnet(1, seed=1)
    count = len(list(source.parameters()))
    assert count <= 5
    found = {
        measured(source, target, optimizer=layer_decay(lambda _, order=order: order)).rate
        for order in permutations(range(count))
    }
    assert len(found) == 1  # to the last digit
    suggested = {
        depthlr.suggest_rate(source, BATCHES, F.cross_entropy, layer_decay(lambda _, order=order: order)).rate
        for order in permutations(range(count))
    }
    assert len(suggested) == 1


def test_layer_wise_decay_to_a_deeper_model_is_of_the_largest_group_and_has_no_interval() -> None:
    up, down, scaled = (
        measured(draw(3), draw(12), 1e-3, optimizer=layer_decay(*order, **options), seeds=2)
        for order, options in (((), {}), ((reversed,), {}), ((reversed,), {"scaled": True}))
    )
    assert up == down
    assert scaled.rate == pytest.approx(up.rate, rel=1e-5)  # timm keeps the base in lr, and the ratio in lr_scale
    assert LARGEST_GROUP in up.notes
    assert any("not the same in every model" in note for note in up.notes)
    assert (up.low, up.high) == (None, None)
    # The largest rate is the head's, so the carried rate is what one tunes as the base rate.
    (biggest,) = {max(g["lr"] for g in layer_decay()(resnet(b)).param_groups) for b in (3, 12)}
    assert biggest == 1e-3


def test_groups_of_the_same_ratios_keep_the_interval() -> None:
    def head_twice(model):
        *body, head = model.parameters()
        return torch.optim.SGD([{"params": body, "lr": 1.0}, {"params": [head], "lr": 2.0}])

    for rule in ("measured", "am-mup", "constant", "law"):
        carried = measured(resnet(2), resnet(5), 2.0, optimizer=head_twice, rule=rule)
        listed = f"carried rates: SGD {carried.rate:.3g} and {carried.rate / 2:.3g}."
        assert carried.notes[-2:] == (LARGEST_GROUP, listed)
        assert carried.in_scope is (rule != "constant")  # init_ drew the weights
        assert (carried.low is not None) is (rule in ("measured", "law"))


@pytest.mark.parametrize(
    ("spec", "vary", "optimizer", "facts"),
    [
        ("gpt?width=32&heads=2", "blocks", "adamw", {PRE_NORM, ADAPTIVE}),
        ("vit?width=32&heads=2&norm=pre", "blocks", "sgd", {PRE_NORM}),
        ("vit?width=32&heads=2&norm=post", "blocks", "muon", {ADAPTIVE}),
        ("vit?width=32&heads=2&norm=post", "blocks", "momentum", set()),
        ("resnet?width=8&batch_norm=true", "blocks", torch.optim.SGD, {BATCH_NORM}),
        ("resnet?width=8", "blocks", torch.optim.RMSprop, {ADAPTIVE}),
    ],
)
def test_the_law_says_what_tuned_rates_did_on_such_models(spec, vary, optimizer, facts) -> None:
    depths = [depthlr.effective_depth(*build(f"{spec}&{vary}={size}", meta=True)) for size in (2, 4)]
    carried = transfer_rate(0.1, *depths, optimizer=optimizer)
    assert {fact for fact, found in LAW_FINDINGS.items() if found.sentence in carried.notes} == facts
    assert (carried.low is None) is (PRE_NORM in facts)  # where the law's interval held half of the time
    copied = transfer_rate(0.1, *depths, optimizer=optimizer, rule="copy")
    assert not any(found.sentence in copied.notes for found in LAW_FINDINGS.values())  # they are about the law


class RMSNorm(nn.Module):
    """Written out in elementary operations, as Hugging Face's are."""

    def forward(self, x):
        return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()


class PreNorm(nn.Module):
    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.stem, self.head, self.norm = nn.Linear(36, 8), nn.Linear(8, 3), RMSNorm()
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(blocks))

    def forward(self, x):
        x = self.stem(x.flatten(1))
        for block in self.blocks:
            x = x + block(self.norm(x)).relu()
        return self.head(x)


def test_a_norm_that_is_written_out_is_seen() -> None:
    assert depthlr.effective_depth(PreNorm(3), X).norms == (PRE_NORM,)
    assert depthlr.effective_depth(resnet(3), X).norms == ()


def test_an_adaptive_optimizer_is_told_from_depths_alone_and_an_unknown_one_is_not_guessed() -> None:
    assert transfer_rate(0.1, 10, 20, family="adam").notes == (LAW_FINDINGS[ADAPTIVE].sentence,)
    assert transfer_rate(0.1, 10, 20, optimizer=lambda model: 1 / 0).notes == ()
    by_name = transfer_rate(0.1, resnet(2), 20, X, optimizer=lambda model: torch.optim.AdamW([model.head.weight]))
    assert by_name.notes == (LAW_FINDINGS[ADAPTIVE].sentence,)
    with pytest.raises(DepthlrError, match="the optimizer is 'sdg'"):
        transfer_rate(0.1, 10, 20, optimizer="sdg")


def stock(layers: int) -> nn.Module:
    """As torch itself initializes it: variances of 1 / (3 fan_in)."""
    widths = [36, *[64] * layers]
    body = [part for pair in pairwise(widths) for part in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *body, nn.Linear(64, 3))


def test_the_law_marks_models_that_are_not_initialized_as_it_assumes() -> None:
    carried = transfer_rate(0.1, stock(3), lambda: stock(9), X, rule="law")
    assert (carried.in_scope, carried.initialization, carried.low) == (False, OTHER_INIT, None)
    assert carried.notes == (NOT_INIT,)
    assert "outside the rule's scope" in str(carried)
    for seed in range(5):
        ready = transfer_rate(0.1, init_(stock(3), X, seed=seed), init_(stock(9), X, seed=seed), X)
        assert (ready.in_scope, ready.initialization, ready.notes) == (True, AS_INIT, ())
        assert ready.low is not None
    copied = transfer_rate(0.1, stock(3), stock(9), X, rule="copy")
    assert (copied.in_scope, copied.initialization) == (True, OTHER_INIT)


def test_models_of_other_initializations_take_the_constant_exponent_by_default() -> None:
    ready = init_(stock(9), X, seed=0)
    for source, target in ((stock(3), ready), (ready, lambda: stock(3)), (stock(3), stock(9))):
        assert transfer_rate(0.1, source, target, X) == transfer_rate(0.1, source, target, X, rule="constant")
    assert transfer_rate(0.1, ready, init_(stock(3), X, seed=0), X).rule == "law"
    assert transfer_rate(0.1, 11, 5).rule == "law"  # no weights are seen


@pytest.mark.parametrize("rule", [None, "law", "constant", "copy"])
def test_a_model_runs_once_for_its_depth_and_its_initialization(rule) -> None:
    runs = []
    source, target = stock(3), stock(9)
    for model in (source, target):
        model.register_forward_hook(lambda model, *_: runs.append(model))
    transfer_rate(0.1, source, target, X, rule=rule)
    assert runs == [source, target]


def test_a_recurrent_model_with_its_own_units_shows_no_initialization() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(6, 6, batch_first=True), nn.Linear(6, 3)

        def forward(self, x):
            return self.head(self.lstm(x.squeeze(1))[0][:, -1])

    for units in (2, [nn.LSTM, nn.Linear]):
        carried = transfer_rate(0.1, Recurrent(), 8, X, rule="law", units=units)
        assert (carried.source_depth, carried.initialization) == (2, UNSEEN)


def test_depths_and_meta_models_show_no_initialization_and_measured_models_count_as_they_are() -> None:
    assert transfer_rate(0.1, 4, 8).initialization == UNSEEN
    with torch.device("meta"):
        bare = stock(3)
    assert transfer_rate(0.1, bare, 8, X).initialization == UNSEEN
    assert measured(resnet(2), resnet(4)).initialization == AS_IT_IS
    assert measured(resnet(2), resnet(4)).in_scope
    assert not measured(resnet(2).eval(), resnet(4)).in_scope
