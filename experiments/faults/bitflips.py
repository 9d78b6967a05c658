"""Flip one bit at a random place of a finished study, read it and resume it, and say what became of its table.

python -m experiments.faults bitflips --times 3000

A flip passes if the table is identical, if the damaged cells are named and all others are as they were, or if the file
is refused with one sentence. Resuming must end in the identical table or in one sentence. The command fails on any
table that is wrong without a word, and on any exception that is not a `DepthlrError`.
"""

from __future__ import annotations

import random
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from depthlr.errors import DepthlrError
from depthlr.study import Environment, Results, open_store, read_results, read_snapshot, sweep, to_csv
from depthlr.training.cell import Cell, Outcome
from experiments.faults.scenario import Verdict
from experiments.landscape import Landscape, LandscapeExecutor, landscape, study

OUTCOMES = ("identical", "damaged cells named", "refused with a sentence", "WRONG", "TRACEBACK")
HERE = Environment("CPU, 2 cores", "2.13.0", "0.1.0", "3.11.7")
LONG = 1500  # steps of some cells: their losses fill pages of their own


@dataclass(frozen=True)
class Tally:
    """Outcomes of all flips, for reading and for resuming; `failures` say where a flip did not pass."""

    reading: Counter[str]
    resuming: Counter[str]
    failures: list[str]

    @property
    def passed(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        lines = ["| outcome | reading | resuming |", "|---|---|---|"]
        lines += [f"| {outcome} | {self.reading[outcome]} | {self.resuming[outcome]} |" for outcome in OUTCOMES]
        return "\n".join([*lines, *self.failures])


class LongExecutor(LandscapeExecutor):
    """Some cells have many steps, so that the file has pages of many records and records of many pages."""

    def run(self, cell: Cell) -> Outcome:
        short = super().run(cell)
        long = (cell.size, cell.seed) == (self.landscape.study.model.sizes[-1], 0)
        return replace(short, losses=np.resize(short.losses, LONG if long else 2))


def bit_flips(times: int, folder: Path) -> Verdict:
    """The scenario."""
    tally = flip_bits(times, folder)
    says = ", ".join(f"{outcome} {tally.reading[outcome]:,}" for outcome in OUTCOMES if tally.reading[outcome])
    return Verdict(times, f"reading: {says}", wrong=tuple(tally.failures))


def flip_bits(flips: int, folder: Path, seed: int = 0) -> Tally:
    """Flip `flips` bits, one at a time, each in a fresh copy of one finished study."""
    given = landscape(seed, study(sizes=(3, 4, 6), points=40))
    path = folder / "study.sqlite"
    with open_store(path, given.study, data_digest="0123456789abcdef", depths={3: 4, 4: 5, 6: 7}):
        pass
    expected = _resumed(given, path)
    sound = path.read_bytes()
    tally = Tally(Counter(), Counter(), [])
    rng = random.Random(seed)
    for _ in range(flips):
        place, bit = rng.randrange(len(sound)), rng.randrange(8)
        flipped = bytearray(sound)
        flipped[place] ^= 1 << bit
        attempts: tuple[tuple[Counter[str], Callable[[], Results]], ...] = (
            (tally.reading, lambda: read_results(path)),
            (tally.reading, lambda: read_snapshot(path).results),
            (tally.resuming, lambda: _resumed(given, path)),
        )
        for index, (counter, attempt) in enumerate(attempts):
            path.write_bytes(flipped)
            outcome, says = _outcome(attempt, expected, path)
            if index != 1:  # the second way of reading must pass, and is not counted twice
                counter[outcome] += 1
            if outcome.isupper() or (counter is tally.resuming and outcome == "damaged cells named"):
                tally.failures.append(f"byte {place}, bit {bit}: {outcome} {says}")
    return tally


def _resumed(given: Landscape, path: Path) -> Results:
    """As `depthlr sweep study.sqlite` resumes: with the study that the file itself holds."""
    study = read_results(path).study
    sweep(study, LongExecutor(given), path, environment=HERE)
    return read_results(path)


def _outcome(attempt: Callable[[], Results], expected: Results, path: Path) -> tuple[str, str]:
    """One of OUTCOMES, and what is to be said of it."""
    try:
        found = attempt()
        lines = to_csv(found).splitlines()
    except DepthlrError as error:
        says = str(error)
        one = says.startswith(str(path)) and says.endswith(".") and says.isprintable()
        return ("refused with a sentence" if one else "WRONG", says)
    except Exception:
        return "TRACEBACK", " ".join(traceback.format_exc().splitlines()[-3:])
    table = to_csv(expected).splitlines()
    same_study = (found.study, found.environments) == (expected.study, expected.environments)
    if same_study and lines == table and not found.damaged:
        return "identical", ""
    rest = iter(table)
    kept = all(line in rest for line in lines)  # in order, and nothing that was not there
    if same_study and kept and len(lines) + len(found.damaged) == len(table) and found.notes[0] in found.damage:
        return "damaged cells named", found.notes[0]
    return "WRONG", f"{len(lines) - 1} cells, {found.notes}"
