"""A scenario, and what became of the studies that went through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Verdict:
    """What became of the studies of a scenario.

    Args:
        times: How often the fault struck.
        says: What the user sees.
        lost: Cells that were reported as kept, are not in the file, and are not named as damaged.
        twice: Cells that were kept and trained again all the same.
        wrong: A line for each study that did not end in the table of an undisturbed one.
    """

    times: int
    says: str
    lost: int = 0
    twice: int = 0
    wrong: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.times > 0 and not (self.lost or self.twice or self.wrong)


@dataclass(frozen=True)
class Scenario:
    """Something that befalls a sweep.

    Args:
        what: What happens, in a few words.
        run: Takes how often to try and an empty folder. It raises `Unavailable` where the machine cannot do it.
        times: How often the command tries it.
        short: How often the tests try it.
    """

    what: str
    run: Callable[[int, Path], Verdict]
    times: int
    short: int


class Unavailable(Exception):
    """The scenario needs what this machine lacks; the message says what."""
