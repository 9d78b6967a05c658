"""A sweep goes on where one of its cells fails, and ends with the reason where all of a size do."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from depthlr.errors import DepthlrError
from depthlr.study import parse_study, read_results, sweep, to_csv
from depthlr.training import Cell, InProcess, Outcome
from depthlr.training.cell import failed_outcome

STUDY = parse_study("""
[model]
spec = "mlp?width=8"
vary = "layers"
sizes = [1, 2]
[training]
steps = 4
[search]
low = 0.01
high = 1.0
points = 17
seeds = 2
""")


class Bowl(InProcess):
    """Losses of a bowl around 0.1; some cells fail."""

    def __init__(self, fails) -> None:
        super().__init__()
        self._fails = fails
        self.trained: list[Cell] = []

    def run(self, cell):
        self.trained.append(cell)
        if self._fails(cell):
            return failed_outcome("no luck", 0.1)
        return Outcome(np.full(4, 1 + (math.log10(cell.rate) + 1) ** 2, np.float32), 0.1, False)


def test_a_failed_cell_counts_as_worse_than_any_loss_and_the_sweep_finishes(tmp_path) -> None:
    path = tmp_path / "s.sqlite"
    runner = Bowl(lambda cell: cell.rate > 0.5)
    results = sweep(STUDY, runner, path)
    assert results.complete
    assert {round(optimum.rate, 3) for size in (1, 2) for optimum in results.inside(size)} == {0.1}
    failures = [record for record in results.records if record.failure]
    assert failures
    assert all(record.loss == math.inf and record.failure == "no luck" for record in failures)
    assert to_csv(read_results(path)) == to_csv(results)


def test_failed_cells_are_trained_again_only_when_asked(tmp_path) -> None:
    path = tmp_path / "s.sqlite"
    sweep(STUDY, Bowl(lambda cell: cell.rate > 0.5), path)
    again = Bowl(lambda cell: False)
    sweep(STUDY, again, path)
    assert again.trained == []
    results = sweep(STUDY, again, path, retry_failed=True)
    assert {cell.rate > 0.5 for cell in again.trained} == {True}
    assert not any(record.failure for record in results.records)


def test_a_size_of_which_every_cell_fails_ends_the_sweep_with_the_reason(tmp_path) -> None:
    path = tmp_path / "s.sqlite"
    with pytest.raises(DepthlrError, match=r"all \d+ cells of size 2 failed \(no luck\): .* with --retry-failed, or"):
        sweep(STUDY, Bowl(lambda cell: cell.size == 2), path)
    assert {record.cell.size for record in read_results(path).records if not record.failure} == {1}


class Diverging(Bowl):
    """Some cells of a `Bowl` diverge."""

    def __init__(self, fails, diverges) -> None:
        super().__init__(fails)
        self._diverges = diverges

    def run(self, cell):
        outcome = super().run(cell)
        return Outcome(np.full(4, math.nan, np.float32), 0.1, True) if self._diverges(cell) else outcome


def test_a_size_without_a_loss_ends_the_sweep_if_some_of_its_cells_failed(tmp_path) -> None:
    path = tmp_path / "s.sqlite"
    runner = Diverging(lambda cell: cell.size == 1, lambda cell: cell.rate > 0.5)
    message = r"all \d+ cells of size 1 diverged or failed, \d+ of them failed \(no luck\): .* with --retry-failed, or"
    with pytest.raises(DepthlrError, match=message):
        sweep(STUDY, runner, path)
    records = read_results(path).records
    assert {record.cell.size for record in records} == {1}
    assert {bool(record.failure) for record in records} == {True, False}


def test_a_size_whose_cells_all_diverged_does_not_end_the_sweep(tmp_path) -> None:
    runner = Diverging(lambda cell: cell.size == 2 and cell.rate > 0.5, lambda cell: cell.size == 1)
    results = sweep(STUDY, runner, tmp_path / "s.sqlite")
    assert results.complete
    assert len(results.inside(2)) == 2


def test_a_file_whose_cells_all_failed_counts_as_empty(tmp_path) -> None:
    path = tmp_path / "s.sqlite"
    with pytest.raises(DepthlrError, match=r"of size 1 failed \(no luck\): mend that, and run the same again\.$"):
        sweep(STUDY, Bowl(lambda cell: True), path)
    again = Bowl(lambda cell: False)
    results = sweep(STUDY, again, path)
    assert results.complete
    assert len(again.trained) == len(results.records)
    other = replace(STUDY, training=replace(STUDY.training, batch=64))
    failed = tmp_path / "failed.sqlite"
    with pytest.raises(DepthlrError, match="no luck"):
        sweep(STUDY, Bowl(lambda cell: True), failed)
    assert {record.failure for record in sweep(other, Bowl(lambda cell: False), failed).records} == {""}
    with pytest.raises(DepthlrError, match=r"another study \(training\.batch: 128 -> 64\): .*or delete this one"):
        sweep(other, Bowl(lambda cell: False), path)


def test_a_failure_of_the_whole_study_ends_the_sweep_unless_a_cell_was_sound(tmp_path) -> None:
    class Keyless(Bowl):
        def run(self, cell):
            super().run(cell)
            return failed_outcome("no key", 0.1, is_general=True)

    path, runner = tmp_path / "s.sqlite", Keyless(lambda cell: True)
    with pytest.raises(DepthlrError, match=r"the first run \(size 1, seed 0, rate 0\.0133352\) has no loss: no key\."):
        sweep(STUDY, runner, path)
    assert len(runner.trained) == 1
    assert read_results(path).records == ()
    sweep(STUDY, Bowl(lambda cell: cell.rate > 0.5), path)
    assert sweep(STUDY, Keyless(lambda cell: True), path, retry_failed=True).complete


def test_a_reason_is_kept_as_one_short_line(tmp_path) -> None:
    def fails(cell: Cell) -> bool:
        return cell.rate > 0.5

    class Loud(Bowl):
        def run(self, cell):
            return failed_outcome("bell \a and\nline" * 100, 0.1) if fails(cell) else super().run(cell)

    results = sweep(STUDY, Loud(fails), tmp_path / "s.sqlite")
    reasons = {record.failure for record in results.records if record.failure}
    assert all(reason.isprintable() and len(reason) <= 500 for reason in reasons)
