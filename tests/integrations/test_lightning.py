"""The recipe of a LightningModule is its training_step and its configure_optimizers, and the callback sets its rate."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import lightning
import pytest
import torch
from tests.integrations.tiny_lightning import Data, LitMLP, examples
from torch import nn

import depthlr
from depthlr import DepthlrError, Recipe, effective_depth, transfer_rate, update_energy
from depthlr.integrations.lightning import rate_callback, recipe_from_lightning
from depthlr.law.rules import RULES

QUIET = {"enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
pytestmark = pytest.mark.filterwarnings("ignore:.*num_workers", "ignore:.*logging interval", "ignore:.*GPU available")


def batches(count: int = 4) -> list[list[torch.Tensor]]:
    rows = examples()
    return [torch.utils.data.default_collate(rows[4 * i : 4 * i + 4]) for i in range(count)]


@pytest.mark.parametrize("returns", ["optimizer", "dict", "lists", "list"])
def test_the_energy_is_that_of_the_plain_model_with_the_same_optimizer(returns: str) -> None:
    recipe = recipe_from_lightning(lambda: LitMLP(3, returns=returns), batches())
    step = recipe.build()
    found = update_energy(step, recipe.batches, None, recipe.optimizer)
    module = step.module
    plain = nn.Sequential(module.body, module.head)
    groups = [{"params": module.body.parameters()}, {"params": module.head.parameters(), "lr": 1e-3}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    reference = update_energy(plain, batches(), nn.functional.cross_entropy, optimizer)
    assert found.mean == pytest.approx(reference.mean)
    assert found.readout == pytest.approx(reference.readout)
    assert found.loss == pytest.approx(reference.loss)


def test_depth_is_that_of_the_model_inside() -> None:
    recipe = recipe_from_lightning(lambda: LitMLP(5), Data())
    assert effective_depth(recipe.build(), next(iter(recipe.batches))).total == 6


def test_a_class_a_data_module_and_accumulation() -> None:
    recipe = recipe_from_lightning(LitMLP, Data(), accumulate_grad_batches=5)
    sizes = [len(batch["batch"][0]) for batch in recipe.batches]
    assert sizes == [20, 20, 20, 20, 16]
    assert len(recipe.batches) == 5
    assert recipe.build().module.hparams.layers == 2


def test_micro_batches_of_different_shapes_are_refused() -> None:
    uneven = [[torch.zeros(2, length), torch.zeros(2)] for length in (3, 4)]
    recipe = recipe_from_lightning(LitMLP, uneven, accumulate_grad_batches=2)
    with pytest.raises(DepthlrError, match="different shapes and cannot be joined: pad them"):
        list(recipe.batches)


def test_a_rate_is_carried_between_two_modules() -> None:
    small, large = (recipe_from_lightning(lambda n=n: LitMLP(n), Data()) for n in (2, 5))
    assert transfer_rate(1e-2, small, large, rule="law").rate == pytest.approx(1e-2 * 2**-1.5)
    carried = transfer_rate(1e-2, small, large, rule=depthlr.rules.Measured(seeds=2))
    assert (carried.source_depth, carried.target_depth) == (3, 6)
    assert carried.rate > 0


def test_mixed_precision_is_used() -> None:
    step = recipe_from_lightning(LitMLP, batches(), precision="bf16-mixed").build()
    assert step(batches()[0])["outputs"].dtype == torch.bfloat16


class ByHand(LitMLP):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False


class Silent(LitMLP):
    def training_step(self, batch, batch_idx):
        super().training_step(batch, batch_idx)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (ByHand, r"optimizes by hand.*transfer_rate\(rate, Net\(4\), Net\(16\).*\.factor"),
        (Silent, "training_step returned NoneType: let it return the loss"),
        (lambda: nn.Linear(2, 2), "'Linear' object has no attribute 'automatic_optimization'"),
    ],
)
def test_what_cannot_be_measured_is_said(build, sentence: str) -> None:
    with pytest.raises(DepthlrError, match=sentence):
        transfer_rate(1e-2, *[recipe_from_lightning(build, batches())] * 2)


class ByLaw:
    """The law between two depths, whatever the models."""

    def carry(self, rate: float, source: Recipe, target: Recipe) -> depthlr.CarriedRate:
        return RULES["law"].carry_depths(rate, 3, 6)


@pytest.mark.parametrize("returns", ["optimizer", "dict"])
def test_the_callback_sets_the_rate(tmp_path, returns: str) -> None:
    callback = rate_callback(1e-2, small=lambda: LitMLP(2, returns=returns), rule=ByLaw())
    module = LitMLP(5, lr=0.5, returns=returns)
    logger = lightning.pytorch.loggers.CSVLogger(tmp_path)
    trainer = lightning.Trainer(
        accelerator="cpu", max_steps=5, logger=logger, callbacks=[callback], log_every_n_steps=1, **QUIET
    )
    trainer.fit(module, Data())
    rate = 1e-2 * 2**-1.5
    assert callback.report.carried.rate == pytest.approx(rate)
    assert module.lr == module.hparams.lr == pytest.approx(rate)
    (optimizer,) = trainer.optimizers
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([rate, rate / 10])
    logged = (tmp_path / "lightning_logs" / "version_0" / "metrics.csv").read_text()
    assert "depthlr/mean_energy" in logged
    assert "depthlr/in_scope" in logged


def test_the_callback_only_warns_if_asked_to() -> None:
    callback = rate_callback(1e-2, small=lambda: LitMLP(2), rule=ByLaw(), set_rate=False)
    module = LitMLP(5, lr=0.5)
    trainer = lightning.Trainer(accelerator="cpu", max_steps=1, logger=False, callbacks=[callback], **QUIET)
    with pytest.warns(UserWarning, match=r"the learning rate 0\.5 lies outside"):
        trainer.fit(module, torch.utils.data.DataLoader(examples(), batch_size=8))
    assert module.lr == 0.5


def test_the_callback_changes_nothing_but_the_rate() -> None:
    ends = []
    for watched in (False, True):
        lightning.seed_everything(0, verbose=False)
        module = LitMLP(3)
        callbacks = [rate_callback(1e-2, small=LitMLP, rule=ByLaw(), set_rate=False)] if watched else []
        lightning.Trainer(accelerator="cpu", max_steps=3, logger=False, callbacks=callbacks, **QUIET).fit(
            module, Data()
        )
        ends.append(module.head.weight.detach())
    assert torch.equal(*ends)


def test_all_ranks_agree_under_ddp(tmp_path) -> None:
    """Rank 1 is given another tuned rate: both train at the rate that rank 0 measured, on batches of both ranks."""
    program = Path(__file__).parent / "launched_lightning.py"
    done = subprocess.run([sys.executable, str(program), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first == second
    assert first["lr"] == pytest.approx(first["depthlr/carried_rate"])
    assert first["batch"] == 2 * 4


def test_the_rule_follows_the_length_and_the_schedule_of_the_run() -> None:
    """As for any recipe: a run with a scheduler, or of 500 steps, takes the exponent of long runs."""

    def rule(returns: str, **limit: int) -> str:
        callback = rate_callback(1e-2, small=lambda: LitMLP(2, returns=returns), energies=False, seeds=2)
        stop = _Stop()
        trainer = lightning.Trainer(accelerator="cpu", logger=False, callbacks=[callback, stop], **limit, **QUIET)
        trainer.fit(LitMLP(3, returns=returns), Data())
        return callback.report.carried.rule

    assert rule("dict", max_steps=5) == "constant"
    assert rule("optimizer", max_epochs=30) == "constant"  # 30 times 24 steps
    assert rule("optimizer", max_epochs=2) == "measured"


class _Stop(lightning.Callback):
    """Ends the run after its first step."""

    def on_train_batch_end(self, trainer, *others) -> None:
        trainer.should_stop = True


class Attached(LitMLP):
    """Asks its Trainer, as many modules do for a schedule and for what they log."""

    def training_step(self, batch, batch_idx):
        self.log("rate", self.trainer.optimizers[0].param_groups[0]["lr"])
        return super().training_step(batch, batch_idx)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr)
        return [optimizer], [
            torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, self.trainer.estimated_stepping_batches)
        ]


def test_a_module_may_ask_for_its_trainer() -> None:
    callback = rate_callback(1e-2, small=lambda: Attached(2), large=lambda: Attached(3), rule="law")
    trainer = lightning.Trainer(accelerator="cpu", max_steps=2, logger=False, callbacks=[callback], **QUIET)
    trainer.fit(Attached(3), Data())
    assert callback.report.energy.mean > 0
    with pytest.raises(DepthlrError, match="Attached is not attached to a `Trainer`"):
        transfer_rate(1e-2, *[recipe_from_lightning(Attached, Data())] * 2)


def test_rates_are_right_after_schedules_and_checkpoints(tmp_path) -> None:
    """The schedule warms up over four steps. A run that goes on from a checkpoint does not carry its rate again."""
    rate = 1e-2 * 2**-1.5

    def fit(steps: int, checkpoint: str | None = None) -> lightning.Trainer:
        callback = rate_callback(1e-2, small=lambda: LitMLP(2, returns="dict"), rule=ByLaw(), energies=False)
        trainer = lightning.Trainer(accelerator="cpu", max_steps=steps, logger=False, callbacks=[callback], **QUIET)
        trainer.fit(LitMLP(5, lr=0.5, returns="dict"), Data(), ckpt_path=checkpoint)
        return trainer

    def rates(trainer: lightning.Trainer) -> list[float]:
        return [group["lr"] for one in trainer.optimizers for group in one.param_groups]

    first = fit(2)
    assert rates(first) == pytest.approx([rate * 3 / 4, rate / 10 * 3 / 4])
    first.save_checkpoint(tmp_path / "half.ckpt")
    assert rates(fit(3, str(tmp_path / "half.ckpt"))) == pytest.approx([rate, rate / 10])
