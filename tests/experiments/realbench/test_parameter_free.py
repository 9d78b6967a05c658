"""Prodigy and schedule-free AdamW, against their papers' formulas for one weight at a time."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from experiments.realbench.parameter_free import Prodigy, ScheduleFreeAdamW

STEPS, BETA1, BETA2, EPS = 60, 0.9, 0.999, 1e-8
TARGETS = [0.5, -1.0, 2.0]


def weights() -> list[nn.Parameter]:
    """Two tensors, so that nothing may be kept by tensor that belongs to all."""
    values = ([0.3, -0.2], [0.1])
    return [nn.Parameter(torch.tensor(part, dtype=torch.float64)) for part in values]


def gradients(found: list[float]) -> list[float]:
    return [3 * (w - t) ** 3 + 0.1 * math.sin(7 * w) for w, t in zip(found, TARGETS, strict=True)]


def flat(parameters: list[nn.Parameter]) -> list[float]:
    return torch.cat([p.detach().flatten() for p in parameters]).tolist()


def run(optimizer, parameters: list[nn.Parameter], factor=lambda step: 1.0) -> None:
    base = optimizer.param_groups[0]["lr"]
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = base * factor(step)
        values: Tensor = torch.tensor(gradients(flat(parameters)), dtype=torch.float64)
        for parameter, part in zip(parameters, values.split([2, 1]), strict=True):
            parameter.grad = part
        optimizer.step()


def test_prodigy_is_its_algorithm():
    def decay(step):
        return 1 - step / STEPS

    parameters = weights()
    optimizer = Prodigy(parameters)
    run(optimizer, parameters, decay)
    start = flat(weights())
    x, d, best, r = list(start), 1e-6, 1e-6, 0.0
    m, v, s = [0.0] * 3, [0.0] * 3, [0.0] * 3
    root = math.sqrt(BETA2)
    for step in range(STEPS):
        g, rate = gradients(x), d * decay(step)
        r = root * r + d / 1e-6 * rate * sum(gi * (x0 - xi) for gi, x0, xi in zip(g, start, x, strict=True))
        for i in range(3):
            m[i] = BETA1 * m[i] + (1 - BETA1) * d * g[i]
            v[i] = BETA2 * v[i] + (1 - BETA2) * (d * g[i]) ** 2
            s[i] = root * s[i] + d / 1e-6 * rate * g[i]
        best = max(best, r / sum(map(abs, s)))
        d = max(d, best)
        x = [xi - rate * mi / (math.sqrt(vi) + d * EPS) for xi, mi, vi in zip(x, m, v, strict=True)]
    assert float(optimizer.d) == pytest.approx(d)
    assert d > 100 * 1e-6
    assert flat(parameters) == pytest.approx(x)


def test_schedule_free_adamw_is_its_algorithm():
    parameters, warmup, lr = weights(), 10, 0.0025
    optimizer = ScheduleFreeAdamW(parameters, warmup=warmup)
    run(optimizer, parameters)
    z = flat(weights())
    x, v, total = list(z), [0.0] * 3, 0.0
    for step in range(1, STEPS + 1):
        y = [(1 - BETA1) * zi + BETA1 * xi for zi, xi in zip(z, x, strict=True)]
        g, rate = gradients(y), lr * min(1.0, step / warmup)
        total += rate**2
        share = rate**2 / total
        for i in range(3):
            v[i] = BETA2 * v[i] + (1 - BETA2) * g[i] ** 2
            z[i] -= rate * g[i] / (math.sqrt(v[i] / (1 - BETA2**step)) + EPS)
            x[i] = (1 - share) * x[i] + share * z[i]
    y = [(1 - BETA1) * zi + BETA1 * xi for zi, xi in zip(z, x, strict=True)]
    assert flat(parameters) == pytest.approx(y)
    optimizer.average()
    assert flat(parameters) == pytest.approx(x)


def test_a_parameter_without_a_gradient_stays():
    parameters = weights()
    for optimizer in (Prodigy(parameters), ScheduleFreeAdamW(parameters)):
        before = flat(parameters)
        parameters[0].grad, parameters[1].grad = torch.ones(2, dtype=torch.float64), None
        optimizer.step()
        assert flat(parameters)[2] == before[2]
        assert flat(parameters)[0] != before[0]
