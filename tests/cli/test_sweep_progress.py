"""What a sweep says of itself while it runs."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from depthlr.cli.train_study import SweepProgress, left_text
from depthlr.present.text import tuned_text
from depthlr.study import Estimate, Results
from depthlr.study.record import Judge, make_record
from depthlr.training.cell import Cell, Outcome
from experiments.landscape import study

STUDY = study(sizes=(2, 4), points=10)


def finished(size: int, place: int, seconds: float = 1.0, seed: int = 0):
    """A cell of a curve that falls towards the lower rates."""
    cell = Cell(size, seed, STUDY.search.rates[place])
    return make_record(cell, Outcome(np.array([1.0 + place], dtype=np.float32), seconds, False), Judge("budget"))


@pytest.mark.parametrize(
    ("left", "seconds", "text"),
    [
        (Estimate(20, 47, 680, None), None, "about 47 cells to come (20 to 680)"),
        (Estimate(20, 47, 680, 1.0), 42.2, "about 47 cells to come (20 to 680), about 42 s"),
        (Estimate(20, 47, 680, 1.0), 180, "about 47 cells to come (20 to 680), about 3 min"),
        (Estimate(47, 47, 47, 1.0), 9000, "47 cells to come, about 2.5 h"),
    ],
)
def test_what_is_to_come_in_words(left, seconds, text):
    assert left_text(left, seconds) == text


def test_the_time_is_that_of_cells_run_beside_each_other(capsys):
    """Four at once: 8 s of training pass in 2 s, so 100 s of it will take 25 s."""
    now = [100.0]
    with SweepProgress(STUDY, clock=lambda: now[0]) as progress:
        progress.begins([], [], Estimate(5, 9, 60, None))
        for place in range(1, 5):
            now[0] += 0.5
            progress.finished(finished(2, place, seconds=2.0), Estimate(5, 9, 60, 50.0))
        progress.finished(finished(4, 0, seconds=0.0), Estimate(5, 9, 60, 100.0))
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "about 9 cells to come (5 to 60)"
    assert said[1] == f"layers 2: 4 cells, best rate 3.59e-4; {left_text(Estimate(5, 9, 60, None), 25.0)}"


@pytest.mark.parametrize("places", [{0: 3, 1: 6, 2: 4}, {0: 3, 1: 0, 2: 6}, {0: 0}], ids=["inside", "some", "edge"])
def test_the_best_rate_on_the_way_is_the_best_rate_of_the_result(capsys, places):
    """Over seeds whose optima lie inside the range, at its edge, or both."""
    cells = [finished(2, place, seed=seed) for seed, best in places.items() for place in (9, best)]
    with SweepProgress(STUDY) as progress:
        progress.begins([], [], Estimate(0, 0, 0, None))
        for one in (*cells, finished(4, 0)):
            progress.finished(one, Estimate(0, 0, 0, None))
        shown = Console(file=io.StringIO())
        shown.print(progress._picture())
    result = Results(STUDY, tuple(sorted(cells, key=lambda one: one.cell)))
    assert f"layers 2: {len(cells)} cells, best rate {tuned_text(result, 2)};" in capsys.readouterr().err
    row = next(line for line in shown.file.getvalue().splitlines() if line.startswith("│"))
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["2", str(len(cells)), tuned_text(result, 2)]


def test_without_a_terminal_a_line_is_said_every_minute(capsys):
    now = [0.0]
    with SweepProgress(STUDY, clock=lambda: now[0]) as progress:
        progress.begins([], [], Estimate(9, 9, 9, None))
        for place in range(6):
            now[0] += 25.0
            progress.finished(finished(2, place), Estimate(9, 9, 9, None))
    said = capsys.readouterr().err.splitlines()
    assert said == ["9 cells to come", "3 cells done, 9 cells to come", "6 cells done, 9 cells to come"]


def test_a_resumed_sweep_says_nothing_of_time_before_its_own_first_cell(capsys):
    with SweepProgress(STUDY, clock=lambda: 0.0) as progress:
        progress.begins([finished(2, 0, 2.0)], [], Estimate(5, 9, 60, 100.0))
    assert capsys.readouterr().err.splitlines() == ["1 cells are kept from before", "about 9 cells to come (5 to 60)"]
