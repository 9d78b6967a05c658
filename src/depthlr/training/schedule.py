"""Learning rate schedules: a factor on the rate of the cell at every step."""

from __future__ import annotations

import math

from depthlr.errors import DepthlrError
from depthlr.python_name import is_python_name, python_callable

SCHEDULES = ("constant", "warmup", "cosine", "warmup-cosine", "linear", "warmup-linear", "wsd")
WARMING = ("warmup", "warmup-cosine", "warmup-linear", "wsd")
COOLDOWN = 0.2  # share of the steps over which `wsd` decays, unless told otherwise


def factors_of(schedule: str, steps: int, warmup: float = 0.0, cooldown: float = 0.0) -> list[float]:
    """The factor of every step.

    Args:
        schedule: A name in `SCHEDULES`, or `package.module:function` of the step number, 0 at the first step.
        steps: How many steps a run takes.
        warmup: Steps over which the rate rises if at least 1, else a share of the steps.
        cooldown: Share of the steps over which `wsd` decays.
    """
    if is_python_name(schedule):
        function = python_callable(schedule)
        return [_checked(schedule, step, function(step)) for step in range(steps)]
    warm = 0
    if schedule in WARMING:
        warm = round(warmup) if warmup >= 1 else round(warmup * steps)
    decay_from = warm
    if schedule == "wsd":  # warm-up, stable, decay: constant after the warm-up, then linear over the cool-down
        decay_from = max(warm, steps - round(cooldown * steps))
    return [_factor(schedule, step, steps, warm, decay_from) for step in range(steps)]


def _factor(schedule: str, step: int, steps: int, warm: int, decay_from: int) -> float:
    """From 0 to 1 in the warm-up; after `decay_from`, from 1 to 0 after the last step."""
    rise = min(1.0, (step + 1) / warm) if warm else 1.0
    progress = max(0, step - decay_from) / max(1, steps - decay_from)
    if schedule.endswith("cosine"):
        return rise * (0.5 * (1 + math.cos(math.pi * progress)))
    if schedule.endswith("linear") or schedule == "wsd":
        return rise * (1 - progress)
    return rise


def _checked(name: str, step: int, factor: object) -> float:
    if not isinstance(factor, int | float) or not 0 <= factor < math.inf:
        raise DepthlrError(f"{name}({step}) returned {factor!r}: a schedule returns a finite factor of at least 0.")
    return float(factor)
