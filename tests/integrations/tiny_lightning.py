"""A small LightningModule with every way to return optimizers, and data for it."""

from __future__ import annotations

from typing import Any

from depthlr.models.libraries import import_torchvision

import_torchvision()

import lightning  # noqa: E402
import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402


def examples(count: int = 96) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(count, 6, generator=generator)
    return [(x, (x.sum() > 0).long()) for x in inputs]


class Data(lightning.LightningDataModule):
    """The examples in batches of 4; refuses to be read before it is set up."""

    def setup(self, stage: str) -> None:
        self.rows = examples()

    def train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(self.rows, batch_size=4, shuffle=True)


class LitMLP(lightning.LightningModule):
    """An MLP that logs, keeps a metric, and calls its body and its head apart."""

    def __init__(self, layers: int = 2, lr: float = 1e-2, returns: str = "optimizer") -> None:
        super().__init__()
        self.save_hyperparameters()
        self.lr = lr
        self.body = nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(6, 6), nn.ReLU())))
        self.head = nn.Linear(6, 2)
        self.loss = nn.CrossEntropyLoss()

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        inputs, target = batch
        loss: Tensor = self.loss(self.head(self.body(inputs)), target)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        groups = [{"params": self.body.parameters()}, {"params": self.head.parameters(), "lr": self.lr / 10}]
        optimizer = torch.optim.AdamW(groups, lr=self.lr)
        if self.hparams.returns == "optimizer":
            return optimizer
        if self.hparams.returns == "list":
            return [optimizer]
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))
        if self.hparams.returns == "lists":
            return [optimizer], [scheduler]
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}
