"""Arguments and options that several verbs share, and how their values are read."""

from __future__ import annotations

import os
from collections.abc import Iterable
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
SeedsOption = Annotated[int, typer.Option(help="initialisations to measure")]
OwnInit = Annotated[
    bool, typer.Option("--own-init", help="keep the weights that the model comes with, instead of init_")
]
Metric = Annotated[
    str | None,
    typer.Option(
        help="of a sweep: judge cells by budget, last_epoch, validation, validation@0.5 or error, if it was stored",
        show_default="the study's own",
    ),
]
RANDOM = "random"  # standard normal inputs or random ids, with separable classes
DEFAULT_LOSS = "cross_entropy"
DEFAULT_SEEDS = 8  # energy.persistent.SEEDS; importing it would import torch
SQLITE_HEADER = b"SQLite format 3\0"


def check_seeds(seeds: int) -> None:
    """Refuse fewer than one seed."""
    if seeds < 1:
        raise DepthlrError(f"--seeds {seeds}: measure at least one initialisation.")


def given_options(context: typer.Context, names: Iterable[str]) -> list[str]:
    """Those of the named parameters that the user wrote, as options such as `--own-init`."""
    given = []
    for name in names:
        source = context.get_parameter_source(name)
        if source and source.name != "DEFAULT":  # by name, because typer has its own copy of click's enumeration
            given.append(f"--{name.replace('_', '-')}")
    return given


def parse_sizes(text: str) -> list[int]:
    """The whole numbers in a text such as `3,4,6`."""
    try:
        return [int(piece) for piece in text.split(",")]
    except ValueError as error:
        raise DepthlrError(f"--sizes {text} is not understood: write whole numbers, such as 3,4,6.") from error


def is_study_file(name: str) -> bool:
    """Whether a file is a study, by its name or by its first bytes."""
    if name.endswith(".sqlite"):
        return True  # if it is missing or damaged, the error is about a study
    if not os.path.isfile(name):
        return False  # a pipe cannot be read twice
    try:
        with open(name, "rb") as file:
            return file.read(len(SQLITE_HEADER)) == SQLITE_HEADER
    except OSError:
        return False  # the next reader raises the error
