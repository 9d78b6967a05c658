"""What ran a sweep: the device and the versions that may change a number in its last digits."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch

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
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    # What this process may use, where the system says so: a Mac counts its cores only.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"CPU, {cores} core{'' if cores == 1 else 's'}"
