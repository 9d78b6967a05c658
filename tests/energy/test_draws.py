"""Initialisations drawn under seeds: from whichever generator, alike each time, with no trace."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from depthlr.energy.initializations import Draws, draw_models

SOURCES = {
    "torch": lambda: float(torch.rand(())),
    "numpy": lambda: float(np.random.rand()),  # noqa: NPY002
    "python": random.random,
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_seed_fixes_what_is_drawn_and_leaves_the_generator_alone(source: str) -> None:
    draw = SOURCES[source]

    def build() -> nn.Module:
        layer = nn.Linear(1, 1)
        nn.init.constant_(layer.weight, draw())
        return layer

    def weights() -> list[float]:
        return [model.weight.item() for model in draw_models(build, range(3))]

    def seed_all() -> None:
        torch.manual_seed(7)
        np.random.seed(7)  # noqa: NPY002
        random.seed(7)

    seed_all()
    expected = [draw() for _ in range(3)]
    seed_all()
    first = weights()
    assert draw() == expected[0]
    assert weights() == first
    assert len(set(first)) == 3
    seed_all()
    assert [draw() for _ in draw_models(build, range(3))] == expected  # between two of them as well


def test_draws_say_whether_a_builder_gives_the_same_weights() -> None:
    kept = nn.Linear(3, 2)
    assert Draws(lambda: kept, range(3)).same_weights is False  # nothing is drawn yet
    for build, same in ((lambda: kept, True), (lambda: nn.Linear(3, 2), False), (kept, False)):
        draws = Draws(build, range(3))
        assert len(list(draws)) == len(draws) == (1 if build is kept else 3)
        assert draws.same_weights is same
