"""What a run gives a LightningModule before its first step, a measurement gives it too."""

from __future__ import annotations

import pickle

import lightning
import pytest
import torch
from tests.integrations.tiny_lightning import Data, LitMLP, examples
from torch import nn
from torch.utils.data import DataLoader

from depthlr import DepthlrError, effective_depth, transfer_rate
from depthlr.integrations.lightning import rate_callback, recipe_from_lightning

QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
pytestmark = pytest.mark.filterwarnings("ignore")


def make_trainer(*callbacks, **options) -> lightning.Trainer:
    return lightning.Trainer(accelerator="cpu", callbacks=list(callbacks), **({"max_steps": 2} | options), **QUIET)


def fit(module, data, **options):
    callback = rate_callback(1e-2, **options)
    make_trainer(callback).fit(module, data)
    return callback


class Asking(LitMLP):
    """Asks its Trainer for the steps of its schedule."""

    asked = 0

    def configure_optimizers(self):
        type(self).asked += 1
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.lr, self.trainer.estimated_stepping_batches)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


def test_the_schedule_is_that_of_configure_optimizers_and_the_steps_are_the_trainers() -> None:
    recipe = recipe_from_lightning(lambda: LitMLP(returns="dict"), Data(), steps=200)
    assert (recipe.schedule, recipe.steps) == ("LambdaLR", 200)
    assert recipe_from_lightning(lambda: LitMLP(returns="lists"), Data()).schedule == "LambdaLR"
    assert recipe_from_lightning(LitMLP, Data()).schedule == "constant"
    batches = list(DataLoader(examples(), batch_size=4))
    for data in (Data(), DataLoader(examples(), batch_size=4), batches):
        trainer = make_trainer(max_steps=-1, max_epochs=3)
        recipe = recipe_from_lightning(Asking, data, trainer=trainer)
        assert (recipe.schedule, recipe.steps) == ("OneCycleLR", 3 * 24)
    assert transfer_rate(1e-2, recipe, recipe).rule == "constant"
    with pytest.raises(DepthlrError, match=r"Asking failed: pass trainer= and .*not attached to a `Trainer`"):
        recipe_from_lightning(Asking, Data(), steps=200)
    assert recipe_from_lightning(Asking, Data(), schedule="onecycle").schedule == "onecycle"


class Bytes(Data):
    """Images in bytes, which only become numbers once they are moved."""

    def train_dataloader(self):
        rows = [((inputs * 40 + 128).clamp(0, 255).to(torch.uint8), target) for inputs, target in self.rows]
        return DataLoader(rows, batch_size=4)

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return (batch[0].float() - 128) / 40, batch[1]


class Plain(Data):
    """The same numbers as of `Bytes`."""

    def train_dataloader(self):
        moved = Bytes()
        moved.setup("fit")
        return [moved.on_after_batch_transfer(batch, 0) for batch in moved.train_dataloader()]


class Moving(LitMLP):
    """Makes numbers of bytes itself."""

    def on_before_batch_transfer(self, batch, dataloader_idx):
        return Bytes().on_after_batch_transfer(batch, dataloader_idx)


class PlainBytes(Bytes):
    on_after_batch_transfer = lightning.LightningDataModule.on_after_batch_transfer


@pytest.mark.parametrize(("module", "data"), [(LitMLP, Bytes), (Moving, PlainBytes)])
def test_hooks_of_batch_transfer_are_applied(module, data) -> None:
    carried = [
        transfer_rate(1e-2, *(recipe_from_lightning(lambda n=n, k=kind: k(n), given) for n in (2, 4)), rule="measured")
        for kind, given in ((module, data()), (LitMLP, Plain()))
    ]
    assert carried[0].rate == pytest.approx(carried[1].rate)
    callback = fit(module(4), data(), small=module, rule="measured")
    assert callback.report.energy.mean > 0


class Configured(lightning.LightningModule):
    """Its layers are made by `configure_model`."""

    def __init__(self, layers: int = 2, lr: float = 1e-2) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = None

    def configure_model(self):
        if self.net is None:
            self.net = nn.Sequential(*(nn.Linear(6, 6) for _ in range(self.hparams.layers)), nn.Linear(6, 2))

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


class SetUp(Configured):
    """Its layers are made by `setup`, which asks for the data."""

    def setup(self, stage):
        self.rows = len(self.trainer.datamodule.rows)
        Configured.configure_model(self)

    def configure_model(self):
        pass


@pytest.mark.parametrize("kind", [Configured, SetUp])
@pytest.mark.parametrize("anew", [False, True])
def test_layers_are_built_where_a_run_builds_them(kind, anew: bool) -> None:
    large = (lambda: kind(5)) if anew else None
    callback = fit(kind(5), Data(), small=lambda: kind(2), large=large, rule="measured", seeds=2)
    assert (callback.report.carried.source_depth, callback.report.carried.target_depth) == (3, 6)
    recipe = recipe_from_lightning(lambda: kind(5), Data(), trainer=make_trainer())
    assert effective_depth(recipe.build(), next(iter(recipe.batches))).total == 6


def test_layers_that_cannot_be_built_are_named() -> None:
    with pytest.raises(DepthlrError, match=r"SetUp failed: pass trainer= and the LightningDataModule if"):
        recipe_from_lightning(SetUp, Data())


def test_what_cannot_be_right_is_refused() -> None:
    with pytest.raises(DepthlrError, match="large= builds parameters of other shapes than the module of the run"):
        fit(LitMLP(5), Data(), small=LitMLP, large=lambda: LitMLP(4), rule="constant")
    with pytest.raises(DepthlrError, match="The rate is '1e-2'"):
        rate_callback("1e-2", LitMLP)
    with pytest.raises(DepthlrError, match="no number 'rate' and neither"):
        fit(LitMLP(5), Data(), small=LitMLP, attr_name="rate")


def test_the_callback_is_pickled_and_its_report_is_short() -> None:
    callback = fit(LitMLP(5), Data(), small=LitMLP, rule="constant")
    assert len(str(callback.report)) < 500
    assert "mean energy of the first step" in str(callback.report)
    again = pickle.loads(pickle.dumps(callback))
    assert (again.small, again.report.rate) == (LitMLP, callback.report.rate)
