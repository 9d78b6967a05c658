"""Which sizes of a sweep learn at all: the best rate of a model that hardly does better than guessing is noise."""

from __future__ import annotations

import math
from statistics import median

from depthlr.models.spec import parse_spec
from depthlr.models.zoo import ZOO
from depthlr.study.results import Results
from experiments.paper.setting import Setting

LEARNT = 0.005  # of the loss of guessing: the least that training must take off it


def guessing(setting: Setting) -> float:
    """The cross-entropy of equal chances."""
    spec = parse_spec(setting.spec)
    arguments = ZOO[spec.name].defaults | dict(spec.arguments)
    return math.log(arguments["vocabulary"] if "vocabulary" in arguments else arguments["classes"])


def unlearnt(setting: Setting, results: Results) -> tuple[int, ...]:
    """Sizes at which the middle seed's least loss is as good as that of guessing, or worse."""
    least: dict[int, list[float]] = {}
    for curve in results.curves:
        least.setdefault(curve.size, []).append(min(curve.losses))
    bar = (1 - LEARNT) * guessing(setting)
    return tuple(size for size, losses in sorted(least.items()) if median(losses) > bar)
