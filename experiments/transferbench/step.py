"""What one step does to a model: change of every unit and of the readout, slope and curvature of the loss along it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """Mean squares at rate 1, over examples and coordinates."""

    energy: float  # of the change
    mean_square: float  # of the value itself
    coherent: float  # of the change averaged over the examples first

    @property
    def relative(self) -> float:
        """Energy in units of the value's own mean square."""
        return self.energy / self.mean_square if self.mean_square > 0 else math.inf


@dataclass(frozen=True)
class Step:
    """At one initialization and along one direction. `hidden` are the units but the head, as mean energy has it."""

    hidden: tuple[Change, ...]
    readout: Change
    loss: float
    slope: float  # g.d, below 0 where the step descends
    curvature: float  # d'Hd
    gauss_newton: float  # d'Gd: the curvature of the loss in the readout alone
    seconds: float  # for the changes: gradient, direction, forward-mode pass
    curvature_seconds: float  # for d'Hd besides
