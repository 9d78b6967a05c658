"""A scenario, and what became of the studies that went through it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from depthlr.errors import DepthlrError
from depthlr.study import read_results, read_store, sweep, to_csv
from depthlr.training import Cell, Outcome
from experiments.landscape import Landscape, LandscapeExecutor, landscape, study


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
        run: Takes how often to try and an empty folder. It raises `Unavailable` where this machine cannot do it.
        times: How often the command tries it.
        short: How often the tests try it; 0 where that takes too long.
    """

    what: str
    run: Callable[[int, Path], Verdict]
    times: int
    short: int


class Watched(LandscapeExecutor):
    """Keeps which cells it trained."""

    def __init__(self, given: Landscape) -> None:
        super().__init__(given)
        self.trained: list[Cell] = []

    def run(self, cell: Cell) -> Outcome:
        self.trained.append(cell)
        return super().run(cell)


def kept_cells(path: Path) -> set[Cell]:
    """The cells that a file holds; none if it was not made in full, which is then no loss."""
    try:
        return set(read_store(path).records)
    except DepthlrError:
        return set()


class Aftermath:
    """Resumes studies after a fault, and compares them with one that was left alone."""

    def __init__(self, folder: Path, given: Landscape | None = None) -> None:
        self.given = given or landscape(1, study("grid", sizes=(3, 4), points=4, seeds=1))
        quiet = folder / "quiet.sqlite"
        sweep(self.given.study, LandscapeExecutor(self.given), quiet)
        self.expected = to_csv(read_results(quiet))
        self.times = self.lost = self.twice = 0
        self.wrong: list[str] = []
        self.says: list[str] = []

    def add(self, path: Path, what: str, reported: int = 0, says: str | None = None) -> None:
        """Resume a study, and delete its file.

        Args:
            path: Its file.
            what: What befell it, for the list of those that went wrong.
            reported: How many of its cells were reported as kept.
            says: What the user saw.
        """
        self.times += 1
        kept = kept_cells(path)
        again = Watched(self.given)
        sweep(self.given.study, again, path)
        self.lost += max(0, reported - len(kept))
        self.twice += len(kept & set(again.trained))
        if to_csv(read_results(path)) != self.expected:
            self.wrong.append(f"{what}: another table")
        if says is not None:
            self.says.append(says)
        for left in path.parent.glob(f"{path.name}*"):
            left.unlink()

    def verdict(self, says: str | None = None) -> Verdict:
        """Of all studies; the user sees the last sentence unless it is given."""
        seen = says or (self.says[-1] if self.says else "nothing; the same command goes on")
        return Verdict(self.times, seen, self.lost, self.twice, tuple(self.wrong))


def forked(act: Callable[[int], object]) -> tuple[int, int]:
    """Act in a child of this process. Returns its process id, and the end of a pipe from which to read.

    Args:
        act: Takes the end of the pipe to which it writes.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            act(writer)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writer)
    return child, reader


def wait_for(child: int) -> int:
    """The status of a child when it has ended, as `os.waitpid` gives it. A child that failed is an error.

    Args:
        child: its process id.
    """
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError("a sweep failed; its traceback stands above")
    return status
