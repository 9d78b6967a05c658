"""Arguments and options that several verbs share, and how their values are read."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any

import typer

from depthlr.errors import DepthlrError

Model = Annotated[
    str, typer.Argument(help="cnn?layers=8, timm/resnet50, hf/gpt2?n_layer=12 or package.module:callable")
]
StudyFile = Annotated[str, typer.Argument(help="the .sqlite of a sweep, finished or not")]
Input = Annotated[str | None, typer.Option(help="3x32x32, or ids:128:50257; the batch is added")]
Json = Annotated[bool, typer.Option("--json", help="write JSON")]
Timeout = Annotated[float | None, typer.Option(help="give a cell up after so many seconds")]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="train the cells again that failed in an earlier run")
]
Metric = Annotated[
    str | None,
    typer.Option(
        help="of a sweep: judge cells by budget, last_epoch, validation, validation@0.5 or error, if it was stored",
        show_default="the study's own",
    ),
]
DATA_HELP = "a data set as depthlr data names it, or your own as package.module:callable"
LOSS_HELP = "cross_entropy, or your own as package.module:function"
OPTIMIZER_HELP = "sgd, momentum, adam, adamw or muon"
RANDOM = "random"  # standard normal inputs or random ids, with separable classes
DEFAULT_LOSS = "cross_entropy"
DEFAULT_SEEDS = 8  # energy.persistent.SEEDS; importing it would import torch
SQLITE_HEADER = b"SQLite format 3\0"


@dataclass(frozen=True)
class MeasurementOptions:
    """What a model is measured on, and how often."""

    optimizer: Annotated[str, typer.Option(help=OPTIMIZER_HELP)] = "sgd"
    data: Annotated[str, typer.Option(help=f"random inputs, {DATA_HELP}")] = RANDOM
    loss: Annotated[str, typer.Option(help=LOSS_HELP)] = DEFAULT_LOSS
    folder: Annotated[str | None, typer.Option(help="where the data set lies")] = None
    batch: Annotated[int, typer.Option(help="examples in the batch of one optimizer step")] = 64
    seeds: Annotated[int, typer.Option(help="initializations to measure")] = 3
    input: Input = None
    own_init: Annotated[
        bool, typer.Option("--own-init", help="keep the weights that the model comes with, instead of init_")
    ] = False


MEASUREMENT = MeasurementOptions()
RATE_MEASUREMENT = MeasurementOptions(seeds=DEFAULT_SEEDS)


def expand_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb an option for each field of the dataclass that it takes as `options`.

    Args:
        verb: A function for typer. The default of `options` is an instance, which has the defaults.
    """
    signature = inspect.signature(verb, eval_str=True)
    options = signature.parameters["options"]
    fields = inspect.signature(options.annotation, eval_str=True).parameters
    parameters = []
    for parameter in signature.parameters.values():
        own = [parameter]
        if parameter is options:
            own = [field.replace(default=getattr(options.default, name)) for name, field in fields.items()]
        parameters += [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]

    @wraps(verb)
    def expanded_verb(**values: Any) -> None:
        values["options"] = options.annotation(**{name: values.pop(name) for name in fields})
        verb(**values)

    expanded_verb.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return expanded_verb


def given_options(context: typer.Context, names: Iterable[str]) -> list[str]:
    """Those of the named parameters that the user wrote, as options such as `--own-init`.

    Args:
        context: The running command.
        names: Names of its parameters.
    """
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
    with open(name, "rb") as file:
        return file.read(len(SQLITE_HEADER)) == SQLITE_HEADER
