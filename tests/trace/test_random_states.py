"""What is drawn inside leaves no trace, on the devices that are named and on those that are not."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from depthlr.random_states import preserve_random_states


def draws() -> tuple[float, float, float]:
    return float(torch.rand(())), random.random(), float(np.random.rand())  # noqa: NPY002


def test_a_seed_gives_the_same_draws_and_the_caller_never_sees_them() -> None:
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    expected = draws(), draws()
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    first = draws()
    inside = []
    for _ in range(2):
        with preserve_random_states(7):
            inside.append(draws())
    assert inside[0] == inside[1]
    assert (first, draws()) == expected


def test_gpus_that_are_not_named_are_not_seeded(monkeypatch) -> None:
    """Theirs is the caller's state: a model on the CPU does not draw from it."""
    seeded: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    monkeypatch.setattr(torch.cuda, "manual_seed", seeded.append)
    with preserve_random_states(7, devices=[]):
        here = float(torch.rand(()))
    assert seeded == []
    assert here == float(torch.rand((), generator=torch.Generator().manual_seed(7)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("named", [True, False])
def test_a_gpus_state_is_kept(named: bool) -> None:
    torch.cuda.manual_seed(3)
    before = torch.cuda.get_rng_state()
    with preserve_random_states(7, devices=[torch.device("cuda", 0)] if named else []):
        torch.rand((), device="cuda") if named else torch.rand(())
    assert torch.equal(torch.cuda.get_rng_state(), before)
