"""Carrying a rate between depths and models."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import depthlr
from depthlr import DepthlrError, init_, transfer_rate, update_energy
from depthlr.law import RULES
from depthlr.models.resnet import ResNet

X, Y = torch.randn(8, 1, 6, 6, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3


def resnet(blocks: int, width: int = 6) -> ResNet:
    return init_(ResNet(blocks=blocks, width=width, inputs=1, classes=3), X, seed=0)


@pytest.mark.parametrize(("target", "rate"), [(14, 6.231e-3), (18, 4.274e-3), (22, 3.163e-3), (42, 1.199e-3)])
def test_the_papers_zero_shot_table(target: int, rate: float) -> None:
    assert transfer_rate(2.462e-3, 26, target).rate == pytest.approx(rate, abs=5e-7)


def test_models_and_depths_may_be_mixed() -> None:
    source = resnet(3)
    between = transfer_rate(0.1, source, resnet(6), X)
    assert between == transfer_rate(0.1, depthlr.effective_depth(source, X), resnet(6), X)
    assert between.rate == transfer_rate(0.1, 5, 8).rate
    assert float(between) == between.rate == pytest.approx(0.1 * (8 / 5) ** -1.5)


@pytest.mark.parametrize("rule", [n for n, r in RULES.items() if r.exponent_sgd is not None])
def test_rules_invert_and_compose(rule: str) -> None:
    there = transfer_rate(0.1, 6, 24, rule=rule)
    assert transfer_rate(there.rate, 24, 6, rule=rule).rate == pytest.approx(0.1)
    half = transfer_rate(0.1, 6, 12, rule=rule).rate
    assert transfer_rate(half, 12, 24, rule=rule).rate == pytest.approx(there.rate)
    assert there.assumes == RULES[rule].assumes


def test_measured_rule_keeps_the_mean_energy() -> None:
    source, target = resnet(3), resnet(8)
    options = {"batches": (X, Y), "loss_fn": F.cross_entropy, "optimizer": "adam"}
    carried = transfer_rate(0.1, source, target, rule="measured", **options)
    here, there = (update_energy(m, (X, Y), F.cross_entropy, "adam") for m in (source, target))
    assert carried.rate**2 * there.mean == pytest.approx(0.1**2 * here.mean)
    assert transfer_rate(0.1, here, there, rule="measured").rate == pytest.approx(carried.rate)
    geometric = transfer_rate(0.1, source, target, rule="measured", aggregate="geometric", **options)
    assert geometric.rate != pytest.approx(carried.rate, rel=1e-3)


def test_law_warns_when_widths_differ_and_measured_does_not() -> None:
    source, target = resnet(3, 6), resnet(6, 12)
    with pytest.warns(UserWarning, match="widths differ"):
        carried = transfer_rate(0.1, source, target, X)
    assert any("widths differ" in note for note in carried.notes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        transfer_rate(0.1, resnet(3), resnet(6), X)
        transfer_rate(0.1, source, target, rule="measured", batches=(X, Y), loss_fn=F.cross_entropy)


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
    for given in (lambda p: torch.optim.AdamW(p), torch.optim.AdamW(nn.Linear(2, 2).parameters()), "muon"):
        assert transfer_rate(0.1, 4, 16, rule="depth-mup", optimizer=given).rate == pytest.approx(0.05)
    assert transfer_rate(0.1, 4, 16, rule="depth-mup", optimizer=lambda p: torch.optim.SGD(p)).rate == pytest.approx(
        0.1
    )

    class Own(torch.optim.Optimizer):
        def __init__(self, parameters) -> None:
            super().__init__(parameters, {"lr": 1.0})

    with pytest.raises(DepthlrError, match="family="):
        transfer_rate(0.1, 4, 16, rule="depth-mup", optimizer=Own)
    assert transfer_rate(0.1, 4, 16, optimizer=Own).rate == transfer_rate(0.1, 4, 16).rate
    with pytest.raises(DepthlrError, match="unknown optimizer"):
        transfer_rate(0.1, 4, 16, rule="depth-mup", optimizer="sdg")


def test_rules_over_residual_updates_count_those_alone() -> None:
    carried = transfer_rate(0.1, resnet(4), resnet(8), X, rule="depth-mup", optimizer="adam")
    assert carried.factor == pytest.approx(2**-0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: transfer_rate(0.1, 4, 6, rule="lore"), "no rule 'lore'"),
        (lambda: transfer_rate(-0.1, 4, 6), "rate must be"),
        (lambda: transfer_rate(float("nan"), 4, 6), "rate must be"),
        (lambda: transfer_rate(0.1, 0, 6), "above 0"),
        (lambda: transfer_rate("0.1", 4, 6), "rate must be"),
        (lambda: transfer_rate(0.1, resnet(2), resnet(3), X, rule="pathsum", optimizer="adam"), "about SGD"),
        (lambda: transfer_rate(0.1, "vit", 6), "a model or a depth"),
        (lambda: transfer_rate(0.1, resnet(2), 6), "needs an example"),
        (lambda: transfer_rate(0.1, 4, 6, rule="measured"), "needs two models"),
        (lambda: transfer_rate(0.1, resnet(2), resnet(3), rule="measured"), "batches= and loss_fn="),
        (lambda: transfer_rate(0.1, 4, 6, rule="completep"), "prescribes nothing"),
        (
            lambda: transfer_rate(
                0.1,
                resnet(2),
                resnet(3),
                rule="measured",
                batches=(X, Y),
                loss_fn=F.cross_entropy,
                optimizer=torch.optim.SGD(nn.Linear(2, 2).parameters()),
            ),
            "bound to one model",
        ),
    ],
)
def test_bad_input_gets_one_sentence(call, message: str) -> None:
    with pytest.raises(DepthlrError, match=message):
        call()


def test_it_prints_its_rule() -> None:
    assert str(transfer_rate(2.462e-3, 26, 14)) == "0.00623 (law: depth 26 -> 14, x 2.53)"
