"""Counting on fake tensors leaves none behind: not in caches outside the model, or it says so."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from depthlr import DepthlrError, effective_depth
from depthlr.trace import tracing

WIDTH = 8
held: dict[int, Tensor] = {}
last: Tensor | None = None


@functools.lru_cache
def cached(n: int) -> Tensor:
    return torch.tril(torch.ones(n, n))


@functools.cache
def cached_pair(n: int) -> tuple[Tensor, Tensor]:
    return torch.tril(torch.ones(n, n)), torch.ones(n)


def in_dict(n: int) -> Tensor:
    if n not in held:
        held[n] = torch.tril(torch.ones(n, n))
    return held[n]


def in_variable(n: int) -> Tensor:
    global last
    if last is None:
        last = torch.tril(torch.ones(n, n))
    return last


class Net(nn.Module):
    def __init__(self, mask: Callable[[int], Any]) -> None:
        super().__init__()
        self.stem, self.head, self.mask = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3), mask

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.mask(x.shape[1]) @ self.stem(x)))


@pytest.fixture(autouse=True)
def faked(monkeypatch):
    """Every model counts as large."""
    monkeypatch.setattr(tracing, "SMALL_MODEL", 0)


@pytest.mark.parametrize("mask", [cached, lambda n: cached_pair(n)[0], in_dict], ids=["lru_cache", "of a pair", "dict"])
def test_caches_hold_real_tensors_afterwards(mask) -> None:
    model, x = Net(mask), torch.randn(2, 5, WIDTH)
    assert effective_depth(model, x).total == 2
    assert type(model(x)) is Tensor


def test_what_was_cached_before_stays() -> None:
    mask = cached(4)
    effective_depth(Net(cached), torch.randn(2, 4, WIDTH))
    assert cached(4) is mask


def test_a_variable_that_keeps_one_is_said_so() -> None:
    global last
    try:
        with pytest.raises(DepthlrError, match="keeps tensors outside of its modules"):
            effective_depth(Net(in_variable), torch.randn(2, 5, WIDTH))
    finally:
        last = None


def test_after_a_failed_run_the_reason_is_told_and_caches_are_clean() -> None:
    class Recurrent(Net):
        def __init__(self) -> None:
            super().__init__(cached)
            self.cells = nn.LSTM(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.cells(super().forward(x))[0]

    with pytest.raises(DepthlrError, match="recurrent"):
        effective_depth(Recurrent(), torch.randn(2, 7, WIDTH))
    assert type(cached(7)) is Tensor


def test_a_failed_run_does_not_search_the_heap_for_every_weight(monkeypatch) -> None:
    """A refused model of a thousand weights took minutes: each search takes a tenth of a second."""

    class Refused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(50)))
            self.cells = nn.LSTM(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            return self.cells(self.layers(x))[0]

    searched = []
    monkeypatch.setattr(tracing, "_drop", searched.append)
    model = Refused()
    with pytest.raises(DepthlrError, match="recurrent"):
        effective_depth(model, torch.randn(2, 5, WIDTH))
    assert len(searched) < 50
