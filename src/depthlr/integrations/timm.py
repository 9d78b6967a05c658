"""timm: the command line of its `train.py` for a carried rate."""

from __future__ import annotations

import shlex
from typing import Any

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.formatting import rate_text

PLAIN_SGD = ("momentum", "--momentum", "0")  # timm's own "sgd" has Nesterov momentum


def train_command(model: str, rate: float, *, optimizer: str | None = None, **options: Any) -> str:
    """The command line of timm's `train.py` that trains a model at this rate.

    `--lr` is the absolute rate. timm scales `--lr-base` by the batch, and `--lr` not at all.

    Args:
        model: As timm names it, or as `timm/NAME?key=value`; the arguments become `--model-kwargs`.
        rate: A number, or what `transfer_rate` returns.
        optimizer: As depthlr names it, or another name of timm's; nothing is said of it if None.
        options: Further options of `train.py`, with underscores: `weight_decay=0.05` becomes `--weight-decay 0.05`.
    """
    if "lr_base" in options:
        raise DepthlrError("lr_base is scaled by the batch, and the carried rate is absolute: leave it out.")
    name, _, arguments = model.removeprefix("timm/").partition("?")
    words = ["python", "train.py", "--model", name, "--lr", rate_text(check.positive("The rate", rate))]
    if arguments:
        words += ["--model-kwargs", *arguments.split("&")]
    if optimizer is not None:
        words += ["--opt", *(PLAIN_SGD if optimizer == "sgd" else [optimizer])]
    for option, value in options.items():
        words += [f"--{option.replace('_', '-')}", str(value)]
    return shlex.join(words)
