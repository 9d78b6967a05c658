"""timm: the command line of its `train.py` for a carried rate."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.formatting import rate_text
from depthlr.spec_text import parse_value, split_spec

REFUSED = {
    "lr": "lr is the rate, the second argument",
    "lr_base": "lr_base is scaled by the batch, and the carried rate is absolute",
    "opt": "opt is given as optimizer=",
}
# What train.py passes to the model from options of its own, and would pass twice from --model-kwargs.
OPTION_OF = {
    "in_chans": "in_chans",
    "num_classes": "num_classes",
    "drop_rate": "drop",
    "drop_path_rate": "drop_path",
    "global_pool": "gp",
}


def train_command(model: str, rate: float, *, optimizer: str | None = None, **options: Any) -> str:
    """The command line of timm's `train.py` that trains a model at this rate.

    `--lr` is the absolute rate. timm scales `--lr-base` by the batch, and `--lr` not at all. What is not given here is
    not written: timm's own default then counts.

    Args:
        model: As timm names it, or as `timm/NAME?key=value`; the arguments become `--model-kwargs`, or the options that
            `train.py` has for them, such as `--num-classes`. `img_size` becomes both.
        rate: A number, or what `transfer_rate` returns.
        optimizer: As depthlr names it, or another name of timm's; nothing is said of it if None. depthlr's "sgd" has no
            momentum, and is written as timm's `momentum` with 0: timm's `sgd` is Nesterov momentum.
        options: Further options of `train.py`, with underscores: `weight_decay=0.05` becomes `--weight-decay 0.05`.
            True is the bare option, False and None are left out, and a sequence is several words. `model_kwargs` is a
            mapping, which is added to the arguments of the model.
    """
    for option in REFUSED.keys() & options:
        raise DepthlrError(f"{REFUSED[option]}: leave {option}= out.")
    name, texts = split_spec(model.removeprefix("timm/"), example="depth=12")
    added = options.pop("model_kwargs", {})
    if not isinstance(added, Mapping):
        raise DepthlrError(f"model_kwargs is {added!r}: give a mapping, such as {{'depth': 12}}.")
    arguments = {key: parse_value(text) for key, text in texts.items()} | dict(added)
    found: dict[str, Any] = {"model": name, "lr": rate_text(check.positive("The rate", rate))}
    size = arguments.get("img_size")  # the model's argument; the data have options of their own
    if isinstance(size, int):
        found["img_size"] = size
    elif isinstance(size, list | tuple):
        found["input_size"] = (arguments.get("in_chans", 3), *size)
    found |= {OPTION_OF[key]: arguments.pop(key) for key in OPTION_OF if key in arguments}
    if arguments:
        found["model_kwargs"] = [f"{key}={value}" for key, value in arguments.items()]
    if optimizer is not None:
        found["opt"] = optimizer
    if optimizer == "sgd":
        found |= {"opt": "momentum", "momentum": 0}
    return shlex.join(["python", "train.py", *_words(found | options)])


def _words(options: Mapping[str, Any]) -> list[str]:
    """Options as argparse reads them."""
    words = []
    for option, value in options.items():
        if value is None or value is False:
            continue
        words.append(f"--{option.replace('_', '-')}")
        if isinstance(value, list | tuple):
            words += map(str, value)
        elif value is not True:
            words.append(str(value))
    return words
