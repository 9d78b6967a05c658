"""How the rate moves during a run: multipliers of the cell's rate, one a step."""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[int, int, int], float]  # step, steps, warm-up steps -> multiplier


def _warmup(step: int, warm: int) -> float:
    return min(1.0, (step + 1) / warm) if warm else 1.0


def _cosine(step: int, steps: int, warm: int) -> float:
    """From 1 after the warm-up to 0 after the last step."""
    progress = max(0, step - warm) / max(1, steps - warm)
    return 0.5 * (1 + math.cos(math.pi * progress))


SCHEDULES: dict[str, Schedule] = {
    "constant": lambda step, steps, warm: 1.0,
    "warmup": lambda step, steps, warm: _warmup(step, warm),
    "cosine": lambda step, steps, warm: _cosine(step, steps, 0),
    "warmup-cosine": lambda step, steps, warm: _warmup(step, warm) * _cosine(step, steps, warm),
}


def multipliers(schedule: str, steps: int, warmup: float) -> list[float]:
    """The multiplier of each step; `warmup` is a share of the steps."""
    warm = round(warmup * steps)
    return [SCHEDULES[schedule](step, steps, warm) for step in range(steps)]
