"""A GPU played by the CPU: a captured step is not taken, and is taken at every replay; streams run in order."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext

import pytest
import torch

from depthlr.training import stepper
from depthlr.training.stepper import Stepper


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


class Graph:
    step: Stepper

    def replay(self) -> None:
        TAKE(self.step)


TAKE = Stepper.__call__


@pytest.fixture
def pretend_gpu(monkeypatch) -> None:
    capturing: list[Graph] = []
    ones = torch.ones

    def called(self: Stepper) -> None:
        if capturing:
            capturing[0].step = self
        else:
            TAKE(self)

    @contextmanager
    def graph(captured: Graph, stream: Stream):
        capturing.append(captured)
        yield
        capturing.clear()

    monkeypatch.setattr(Stepper, "__call__", called)
    monkeypatch.setattr(stepper, "compile_repeated", lambda model: None)
    monkeypatch.setattr(torch, "ones", lambda *shape, pin_memory=False, **options: ones(*shape, **options))
    for name, played in {
        "CUDAGraph": Graph,
        "Event": Event,
        "Stream": Stream,
        "current_stream": Stream,
        "device": nullcontext,
        "empty_cache": lambda: None,
        "graph": graph,
        "manual_seed": torch.manual_seed,
        "stream": nullcontext,
        "synchronize": lambda device: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, played)
