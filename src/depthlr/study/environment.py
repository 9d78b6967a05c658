"""The machine and the software that train a study's cells."""

from __future__ import annotations

import platform
from dataclasses import dataclass

import torch

from depthlr.training.device import available_cores, default_device
from depthlr.version import VERSION


@dataclass(frozen=True)
class Environment:
    """A machine with its software; two sweeps of one study may have run on two."""

    device: str  # a GPU's name, or `CPU, 2 cores`
    torch: str
    depthlr: str
    python: str

    def __str__(self) -> str:
        return f"{self.device} (torch {self.torch}, depthlr {self.depthlr}, Python {self.python})"


def current_environment() -> Environment:
    """The environment of this process, with the device that `open_executor` chooses."""
    device = default_device()
    if device.startswith("cuda"):
        name = torch.cuda.get_device_name(device)
    else:
        cores = available_cores()
        name = "CPU, 1 core" if cores == 1 else f"CPU, {cores} cores"
    return Environment(name, torch.__version__, VERSION, platform.python_version())
