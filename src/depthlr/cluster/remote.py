"""What executors on other machines share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch

from depthlr.errors import DepthlrError
from depthlr.training.cell import Cell, Outcome, outcome_or_failure
from depthlr.training.serial import SerialExecutor
from depthlr.training.task import MakeTask


def needed(module: str, extra: str) -> Any:
    """A module, or a sentence that says how to install it.

    Args:
        module: The name of the module.
        extra: The extra of depthlr that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise DepthlrError(f"{module} is needed for this: run pip install 'depthlr[{extra}]'.") from error


# -- on the other machine ----------------------------------------------------------------------------------------------
_EXECUTORS: dict[str, SerialExecutor] = {}  # the last one, by the name of its task


def train_cell(name: str, load: Callable[[], MakeTask], cell: Cell, device: str, threads: int) -> Outcome:
    """Return a cell's outcome, whatever the code of its model does. The model of a size stays warm in its process.

    Args:
        name: The name of the task, another one for each sweep.
        load: Returns the task with its data. It is called once for each size.
        cell: What to train.
        device: What it trains on.
        threads: The threads of torch on a CPU.
    """
    torch.set_num_threads(threads)
    if name not in _EXECUTORS:
        _EXECUTORS.clear()
        _EXECUTORS[name] = SerialExecutor(lambda size: load()(size), device)
    return outcome_or_failure(partial(_EXECUTORS[name].run, cell))
