"""What a study's file knows besides its cells: the study, its data and depths, and the environments that trained it."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.study.description import Study, study_from_dict
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


def current_environment(device: str | None = None) -> Environment:
    """The environment of this process.

    Args:
        device: A device as torch names it. None takes the one that `open_engine` chooses.
    """
    return Environment(_name(device), torch.__version__, VERSION, platform.python_version())


def read_environment(entries: Mapping[str, Any]) -> Environment:
    """As it was stored; another depthlr may have stored more of it, or less."""
    return Environment(**{field.name: str(entries.get(field.name, "unknown")) for field in fields(Environment)})


def _name(device: str | None) -> str:
    device = device or default_device()
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    count = available_cores()
    return f"CPU, {count} core{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class Facts:
    """The study, and what its runs added to it."""

    study: Study
    data_digest: str | None
    depths: Mapping[int, int] | None  # effective depth by size, if it was counted
    environments: tuple[Environment, ...]  # that ran it, in the order in which they came


def read_facts(rows: Mapping[str, str]) -> Facts:
    """Facts from their JSON; a file from before a fact was kept is without it."""
    try:
        known = {name: json.loads(value) for name, value in rows.items()}
        depths, digest = known.get("depths"), known.get("data")
        if not isinstance(digest, str | None):
            raise DepthlrError(f"data is {digest!r}")
        return Facts(
            study_from_dict(known["study"]),
            data_digest=digest,
            depths=depths and {int(size): check.count("a depth", depth) for size, depth in depths.items()},
            environments=tuple(map(read_environment, known.get("environments", ()))),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise DepthlrError(f"{type(error).__name__}: {error}") from error
