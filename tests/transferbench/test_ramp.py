"""A ramp ends where its loss blows up, and says after which rate."""

import math

import pytest
import torch
from benchmarks.transferbench.ramp import A_DECADE, STEPS, Ramp, run_ramp
from torch import nn


@pytest.mark.parametrize(("times", "rate"), [(1.0, 0.2), (2.0, 0.4), (5.0, 0.8), (9.0, 0.8), (1e6, 0.8)])
def test_the_rate_is_that_of_the_step_that_did_it(times, rate):
    ramp = Ramp((0.1, 0.2, 0.4, 0.8, 1.6), (1.0, 0.5, 1.5, 3.0, math.inf), 1.0)
    assert ramp.passes(times) == rate


def test_a_loss_that_never_rises_gives_no_rate():
    assert Ramp((0.1, 0.2), (1.0, 0.5), 1.0).passes(2.0) is None


def test_a_parabola_blows_up_beyond_twice_its_inverse_curvature():
    """With loss c w^2 / 2 a step multiplies w by |1 - c rate|: it shrinks below rate 2/c and grows above it."""
    curvature = 10.0

    def blow_up(scale):
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, 1.0)
        batches = [(torch.ones(1, 1), torch.zeros(1, 1))] * STEPS
        optimizer = torch.optim.SGD(model.parameters(), 1.0)
        ramp = run_ramp(model, [optimizer], batches, lambda y, _: scale * y.square().mean() / 2, 1e-2 / scale)
        assert not ramp.losses[-1] <= 6 * ramp.losses[0]
        assert ramp.rates[1] / ramp.rates[0] == pytest.approx(10 ** (1 / A_DECADE))
        return ramp.passes(1.0)

    assert blow_up(curvature) > 2 / curvature
    assert blow_up(10 * curvature) == pytest.approx(blow_up(curvature) / 10, rel=1e-3)
