"""The callback's rates are those of a run whose `lr` is written by hand, and a checkpoint keeps them."""

from __future__ import annotations

import lightning
import pytest
import torch
from tests.integrations.tiny_lightning import Data, LitMLP
from torch.optim import lr_scheduler

import depthlr
from depthlr import CarriedRate, Recipe
from depthlr.integrations.lightning import rate_callback
from depthlr.law.rules import RULES

QUIET = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
STEPS = 12
pytestmark = pytest.mark.filterwarnings("ignore")


class ByLaw:
    """The law between two depths, whatever the models."""

    def carry(self, rate: float, source: Recipe, target: Recipe) -> CarriedRate:
        return RULES["law"].carry_depths(rate, 3, 6)


class Falling(lr_scheduler.LRScheduler):
    """A schedule of one's own, which remembers its peak."""

    def __init__(self, optimizer, peak):
        self.peak = peak
        super().__init__(optimizer)

    def get_lr(self):
        return [self.peak * (1 - self.last_epoch / 20) for _ in self.optimizer.param_groups]


def sequential(optimizer, lr):
    warmup = lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4)
    return lr_scheduler.SequentialLR(optimizer, [warmup, lr_scheduler.CosineAnnealingLR(optimizer, 8)], [4])


SCHEDULES = {
    "none": None,
    "onecycle": lambda one, lr: lr_scheduler.OneCycleLR(one, lr, total_steps=STEPS + 1),
    "cyclic": lambda one, lr: lr_scheduler.CyclicLR(one, lr / 10, lr, step_size_up=4, cycle_momentum=False),
    "cosine": lambda one, lr: lr_scheduler.CosineAnnealingLR(one, STEPS, eta_min=1e-5),
    "linear": lambda one, lr: lr_scheduler.LinearLR(one, 0.1, total_iters=5),
    "lambda": lambda one, lr: lr_scheduler.LambdaLR(one, lambda step: min(1, (step + 1) / 6)),
    "sequential": sequential,
    "multistep": lambda one, lr: lr_scheduler.MultiStepLR(one, [3, 6]),
    "plateau": lambda one, lr: lr_scheduler.ReduceLROnPlateau(one, factor=0.5, patience=0, threshold=10.0),
    "own": Falling,
}


class Scheduled(LitMLP):
    """The rate of the head is ten times `lr`, if the groups are unequal."""

    def __init__(self, layers: int = 2, lr: float = 1e-2, kind: str = "none", head: float = 1.0) -> None:
        super().__init__(layers, lr)
        self.kind, self.factor = kind, head

    def rate(self) -> float:
        return self.hparams.lr

    def configure_optimizers(self):
        lr = self.rate()
        groups = [{"params": self.body.parameters()}, {"params": self.head.parameters(), "lr": lr * self.factor}]
        optimizer = torch.optim.AdamW(groups, lr=lr)
        if self.kind == "none":
            return optimizer
        scheduler = SCHEDULES[self.kind](optimizer, lr)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step", "monitor": "train_loss"},
        }


class Rates(lightning.Callback):
    def __init__(self):
        self.seen = []

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.seen += [group["lr"] for one in trainer.optimizers for group in one.param_groups]


def fit(module, *callbacks, steps=STEPS, **options):
    rates = Rates()
    trainer = lightning.Trainer(max_steps=steps, callbacks=[*callbacks, rates], enable_checkpointing=False, **QUIET)
    trainer.fit(module, Data(), **options)
    return rates.seen, trainer


@pytest.mark.parametrize("head", [1.0, 10.0])
@pytest.mark.parametrize("kind", SCHEDULES)
def test_rates_are_those_of_lr_written_by_hand(kind: str, head: float) -> None:
    callback = rate_callback(1e-2, small=lambda: Scheduled(2, kind=kind), rule=ByLaw(), energies=False)
    module = Scheduled(5, 0.5, kind, head)
    rates, _ = fit(module, callback)
    by_hand, _ = fit(Scheduled(5, callback.report.rate, kind, head))
    assert len(rates) == 2 * STEPS
    assert rates == by_hand
    assert module.hparams.lr == callback.report.rate == pytest.approx(1e-2 * 2**-1.5)


class OtherName(Scheduled):
    """Reads another attribute than `lr`."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__(layers)
        self.base_rate = 1e-2

    def rate(self) -> float:
        return self.base_rate


def test_an_attribute_that_nothing_reads_is_named() -> None:
    with pytest.warns(UserWarning, match="did not change with the module's 'lr'"):
        fit(OtherName(5), rate_callback(1e-2, small=OtherName, rule=ByLaw(), energies=False))
    callback = rate_callback(1e-2, small=OtherName, rule=ByLaw(), energies=False, attr_name="base_rate")
    rates, _ = fit(OtherName(5), callback)
    assert set(rates) == {callback.report.rate}


def test_the_peak_is_the_rate_that_is_compared(recwarn) -> None:
    rate = 1e-2 * 2**-1.5
    callback = rate_callback(1e-2, small=LitMLP, rule=ByLaw(), energies=False, set_rate=False)
    fit(Scheduled(5, rate, "onecycle"), callback)
    assert not [warned for warned in recwarn if "lies outside" in str(warned.message)]


@pytest.mark.parametrize("kind", ["onecycle", "own"])
def test_a_run_that_goes_on_keeps_its_rate_its_attribute_and_its_report(kind: str, tmp_path) -> None:
    def callback():
        return rate_callback(1e-2, small=lambda: Scheduled(2, kind=kind), rule=ByLaw(), energies=False)

    whole, _ = fit(Scheduled(5, 0.5, kind), first := callback())
    half, trainer = fit(Scheduled(5, 0.5, kind), callback(), steps=STEPS // 2)
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    module = Scheduled(5, 0.5, kind)
    rest, _ = fit(module, again := callback(), ckpt_path=str(tmp_path / "half.ckpt"))
    assert [*half, *rest] == whole
    assert module.hparams.lr == again.report.rate == first.report.rate
    assert str(again.report.carried) == str(first.report.carried)


def test_the_note_on_the_largest_group_is_left_out_where_the_rate_is_an_attribute() -> None:
    rule = depthlr.rules.Measured(seeds=1)
    callback = rate_callback(1e-2, small=lambda: Scheduled(2, head=10.0), rule=rule, energies=False)
    fit(Scheduled(5, head=10.0), callback, steps=1)
    assert "largest rate" not in str(callback.report.carried)
