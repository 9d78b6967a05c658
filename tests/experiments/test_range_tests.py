"""The range tests find the steepest descent, and never return nonsense."""

import pytest
import torch
from torch import nn

from experiments.range_tests import RANGE_TESTS, STEPS


@pytest.mark.parametrize("name", RANGE_TESTS)
def test_a_quadratic_gets_a_rate_below_divergence(name):
    torch.manual_seed(0)
    model = nn.Linear(8, 1, bias=False)
    inputs = torch.randn(64, 8)
    batch = inputs, inputs @ torch.ones(8, 1)
    rate = RANGE_TESTS[name](
        model, [torch.optim.SGD(model.parameters())], [batch] * STEPS, lambda out, y: (out - y).square().mean()
    )
    assert rate is not None
    assert RANGE_TESTS[name].rates[10] <= rate < 1.0  # 2 over the curvature of about 2


@pytest.mark.parametrize("name", RANGE_TESTS)
def test_too_few_losses_suggest_nothing(name):
    model = nn.Linear(1, 1)
    batch = torch.ones(2, 1), torch.ones(2, 1)
    test = RANGE_TESTS[name]
    found = test(model, [torch.optim.SGD(model.parameters())], [batch] * 5, lambda out, y: (out - y).square().mean())
    assert found is None


def test_ramps_are_those_of_the_packages():
    finder, lightning = (RANGE_TESTS[name].rates for name in ("pytorch-lr-finder", "lightning"))
    assert (len(finder), finder[0], finder[-1]) == (100, 1e-7, pytest.approx(100))
    assert (len(lightning), lightning[0], lightning[-1]) == (100, 1e-8, pytest.approx(1))
