"""A GPU played by the CPU: a captured step is not taken, and is taken at every replay; streams run in order."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from depthlr.training import capturable, graphs


class Stream:
    def __init__(self, device: torch.device | None = None) -> None:
        pass

    def wait_stream(self, other: Stream) -> None:
        pass

    def synchronize(self) -> None:
        pass


class Event:
    def record(self, stream: Stream) -> None:
        pass

    def synchronize(self) -> None:
        pass


@pytest.fixture
def pretend_gpu(monkeypatch) -> None:
    ones = torch.ones
    monkeypatch.setattr(graphs, "capture", lambda function, stream: function)
    monkeypatch.setattr(capturable, "compile_repeated", lambda model: None)
    monkeypatch.setattr(torch, "ones", lambda *shape, pin_memory=False, **options: ones(*shape, **options))
    for name, played in {
        "Event": Event,
        "Stream": Stream,
        "current_stream": Stream,
        "device": nullcontext,
        "empty_cache": lambda: None,
        "manual_seed": torch.manual_seed,
        "stream": nullcontext,
        "synchronize": lambda device: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, played)
