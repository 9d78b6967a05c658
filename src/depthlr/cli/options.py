"""Arguments and options that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

from depthlr.errors import DepthlrError

Model = Annotated[
    str, typer.Argument(help="cnn?layers=8, timm/resnet50, hf/gpt2?n_layer=12 or package.module:callable")
]
Input = Annotated[str | None, typer.Option(help="3x32x32, or ids:128:50257; the batch is added")]
Json = Annotated[bool, typer.Option("--json", help="write JSON")]
OptimizerName = Annotated[str, typer.Option(help="sgd, momentum, adam, adamw or muon")]
DataName = Annotated[
    str,
    typer.Option(help="random inputs, a data set as depthlr data names it, or your own as package.module:callable"),
]
LossName = Annotated[str, typer.Option(help="cross_entropy, or your own as package.module:function")]
Folder = Annotated[str | None, typer.Option(help="where the data set lies")]
BatchSize = Annotated[int, typer.Option("--batch", help="examples in the batch of one optimizer step")]
Seeds = Annotated[int, typer.Option(help="initialisations to measure")]
OwnInit = Annotated[
    bool, typer.Option("--own-init", help="keep the weights that the model comes with, instead of init_")
]
RANDOM = "random"  # standard normal inputs or random ids, with classes that can be told apart
LOSS = "cross_entropy"
SEEDS = 8  # energy.persistent.SEEDS; importing it would import torch


def check_seeds(seeds: int) -> None:
    """Refuse to measure nothing."""
    if seeds < 1:
        raise DepthlrError(f"--seeds {seeds}: measure at least one initialisation.")
