"""The optimizers a cell can use, as torch's own objects."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.optim import Optimizer

from depthlr.training.task import Training


def make_optimizers(training: Training, parameters: Sequence[nn.Parameter], rate: float) -> list[Optimizer]:
    """The optimizer of a cell; Muon takes the matrices and leaves the rest to AdamW."""
    decay = training.weight_decay
    if training.optimizer == "sgd":
        return [torch.optim.SGD(parameters, lr=rate, weight_decay=decay)]
    if training.optimizer == "momentum":
        return [torch.optim.SGD(parameters, lr=rate, momentum=training.momentum, weight_decay=decay)]
    if training.optimizer == "adam":
        return [torch.optim.Adam(parameters, lr=rate, weight_decay=decay)]
    if training.optimizer == "adamw":
        return [torch.optim.AdamW(parameters, lr=rate, weight_decay=decay)]
    matrices = [p for p in parameters if p.dim() == 2]
    rest = [p for p in parameters if p.dim() != 2]
    made: list[Optimizer] = []
    if matrices:
        made.append(torch.optim.Muon(matrices, lr=rate, weight_decay=decay))
    if rest:
        made.append(torch.optim.AdamW(rest, lr=rate, weight_decay=decay))
    return made
