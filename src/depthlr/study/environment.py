"""What ran a sweep: the device and the versions that may change a number in its last digits."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch

from depthlr.training.device import chosen_device, cores
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


def environment(device: str | None = None) -> Environment:
    """This process with the device that torch calls so: its GPU, or else its CPU, as `open_engine` chooses."""
    return Environment(_name(device), torch.__version__, VERSION, platform.python_version())


def read_environment(entries: Mapping[str, Any]) -> Environment:
    """As it was stored; another depthlr may have stored more of it, or less."""
    return Environment(**{field.name: str(entries.get(field.name, "unknown")) for field in fields(Environment)})


def _name(device: str | None) -> str:
    device = device or chosen_device()
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    count = cores()
    return f"CPU, {count} core{'' if count == 1 else 's'}"
