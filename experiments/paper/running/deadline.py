"""Time that is lent: work stops at the first finished cell after it is spent, and loses nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from depthlr.errors import DepthlrError
from depthlr.study.estimate import Estimate
from depthlr.study.record import Record
from depthlr.study.run import Progress
from depthlr.training.cell import Cell


class OutOfTime(Exception):
    """The time is spent; what had finished is kept."""


@dataclass(frozen=True)
class Deadline:
    """A moment of the performance counter; infinite where there is all the time in the world."""

    moment: float = math.inf

    @staticmethod
    def after(seconds: float | None) -> Deadline:
        if seconds is None:
            return Deadline()
        if not seconds >= 0:  # nor is nan
            raise DepthlrError(f"{seconds:g} seconds are no time to work in: give 0 or more.")
        return Deadline(time.perf_counter() + seconds)

    def check(self) -> None:
        if time.perf_counter() >= self.moment:
            raise OutOfTime


class Timed:
    """Progress that ends a sweep when the time is spent; until then it tells another of it, and says what is done."""

    def __init__(self, deadline: Deadline, told: Progress, done: Callable[[], None] = lambda: None) -> None:
        self._deadline, self._told, self._done = deadline, told, done

    def begins(self, known: Sequence[Record], damaged: Sequence[Cell], estimate: Estimate) -> None:
        self._told.begins(known, damaged, estimate)

    def finished(self, record: Record, estimate: Estimate) -> None:
        self._told.finished(record, estimate)
        self._done()
        if estimate.most:  # the last cell of all is worth its tail
            self._deadline.check()
