"""How the rate moves during a run: a factor on the cell's rate at every step."""

from __future__ import annotations

import math
from collections.abc import Callable

from depthlr.errors import DepthlrError
from depthlr.python_name import is_python_name, python_callable

Schedule = Callable[[int, int, int, int], float]
"""Step, steps, warm-up steps, cool-down steps -> factor."""

COOLDOWN = 0.2  # share of the steps over which `wsd` decays, unless told otherwise


def _warmup(step: int, warm: int) -> float:
    return min(1.0, (step + 1) / warm) if warm else 1.0


def _cosine(step: int, steps: int, warm: int) -> float:
    """From 1 after the warm-up to 0 after the last step."""
    progress = max(0, step - warm) / max(1, steps - warm)
    return 0.5 * (1 + math.cos(math.pi * progress))


def _linear(step: int, steps: int, warm: int) -> float:
    """From 1 after the warm-up to 0 after the last step."""
    return 1 - max(0, step - warm) / max(1, steps - warm)


SCHEDULES: dict[str, Schedule] = {
    "constant": lambda step, steps, warm, cool: 1.0,
    "warmup": lambda step, steps, warm, cool: _warmup(step, warm),
    "cosine": lambda step, steps, warm, cool: _cosine(step, steps, 0),
    "warmup-cosine": lambda step, steps, warm, cool: _warmup(step, warm) * _cosine(step, steps, warm),
    "linear": lambda step, steps, warm, cool: _linear(step, steps, 0),
    "warmup-linear": lambda step, steps, warm, cool: _warmup(step, warm) * _linear(step, steps, warm),
    # Warm-up, stable, decay: constant after the warm-up, then linear to 0 over the cool-down.
    "wsd": lambda step, steps, warm, cool: _warmup(step, warm) * _linear(step, steps, max(warm, steps - cool)),
}
WARMING = tuple(name for name in SCHEDULES if name.startswith("warmup") or name == "wsd")


def factors_of(schedule: str, steps: int, warmup: float = 0.0, cooldown: float = 0.0) -> list[float]:
    """The factor of every step.

    Args:
        schedule: a name in `SCHEDULES`, or `package.module:function` of the step number, 0 at the first step.
        steps: how many steps a run takes.
        warmup: steps over which the rate rises if at least 1, else a share of the steps.
        cooldown: share of the steps over which `wsd` decays.
    """
    if is_python_name(schedule):
        return [_own_factor(schedule, step) for step in range(steps)]
    warm = round(warmup) if warmup >= 1 else round(warmup * steps)
    cool = round(cooldown * steps)
    return [SCHEDULES[schedule](step, steps, warm, cool) for step in range(steps)]


def _own_factor(name: str, step: int) -> float:
    factor = python_callable(name)(step)
    if not isinstance(factor, int | float) or not 0 <= factor < math.inf:
        raise DepthlrError(f"{name}({step}) returned {factor!r}: a schedule returns a finite factor of at least 0.")
    return float(factor)
