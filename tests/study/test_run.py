"""Sweeps: what they run, what they keep, how they stop, and what their results say."""

import json
import math
import sqlite3
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from depthlr.data import load
from depthlr.errors import DepthlrError
from depthlr.study import SweepInterrupted, read_results, read_store, sweep, to_csv, to_json
from depthlr.study.search import PLANS
from depthlr.training.cell import Outcome
from experiments.landscape import Landscape, LandscapeExecutor, landscape, study

DEPTHS = {3: 4, 6: 7, 12: 13}


@pytest.fixture
def given():
    return landscape(7, study(sizes=(3, 6, 12)))


class Watch:
    """Progress that remembers."""

    def __init__(self):
        self.known, self.damaged, self.estimates, self.cells = [], [], [], []

    def begins(self, known, damaged, estimate):
        self.known, self.damaged = list(known), list(damaged)
        self.estimates.append(estimate)

    def finished(self, record, estimate):
        self.cells.append(record.cell)
        self.estimates.append(estimate)


class Faltering(LandscapeExecutor):
    """Stops in some way after so many cells."""

    def __init__(self, landscape, cells, error):
        super().__init__(landscape)
        self.left, self.error = cells, error

    def train_together(self, cells):
        for cell in cells:
            if not self.left:
                raise self.error
            self.left -= 1
            yield from super().train_together([cell])


class Forgetting(Faltering):
    """Takes every cell, and gives results for the first ones alone."""

    def train_together(self, cells):
        first = list(cells)[: self.left]
        self.left -= len(first)
        yield from LandscapeExecutor.train_together(self, first)


def runners(given: Landscape):
    return LandscapeExecutor(given)


def test_a_sweep_finds_optima_and_their_law(given, tmp_path):
    results = sweep(given.study, runners(given), tmp_path / "s.sqlite", depths=DEPTHS)
    assert results.complete
    assert results.notes == ()
    assert [(curve.size, curve.seed) for curve in results.curves] == [(s, k) for s in (3, 6, 12) for k in (0, 1, 2)]
    for curve in results.curves:
        row = given.losses[given.study.model.sizes.index(curve.size), curve.seed]
        assert curve.optimum.loss == pytest.approx(row.min(), rel=1e-3)
    fit = results.fit()
    assert (fit.depths, fit.observations) == (3, 9)
    assert -2.5 < fit.slope < 0
    assert [point.depth for point in results.fit("depth").points] == [4, 7, 13]
    assert [point.depth for point in results.fit("depth", depths={3: 1, 6: 2, 12: 3}).points] == [1, 2, 3]
    assert read_results(tmp_path / "s.sqlite") == results


def test_an_executor_that_forgets_cells_is_an_error_and_not_a_loop(given, tmp_path):
    with pytest.raises(DepthlrError, match="Forgetting gave no result for 1 cells"):
        sweep(given.study, Forgetting(given, 4, None), tmp_path / "s.sqlite")
    assert len(read_store(tmp_path / "s.sqlite").records) == 4


def test_the_search_is_asked_once_a_wave_and_not_once_a_cell(given, tmp_path, monkeypatch):
    asked, trained = [], []
    plan = PLANS["adaptive"]

    def counted(search, sizes):
        inner, losses = plan(search, sizes), None
        while True:
            try:
                wave = inner.send(losses)
            except StopIteration:
                return
            asked.append(len(wave))
            losses = yield wave

    class Counting(LandscapeExecutor):
        def train_together(self, cells):
            cells = list(cells)
            trained.append(len(cells))
            yield from super().train_together(cells)

    monkeypatch.setitem(PLANS, "adaptive", counted)
    results = sweep(given.study, Counting(given), tmp_path / "s.sqlite")
    assert asked[: len(trained)] == trained
    # Two searches are asked once a wave: the sweep's, and then that of its results, which says that none is missing.
    assert results.complete
    assert len(asked) == 2 * len(trained)
    assert sum(trained) == len(results.records)


def test_progress_is_told_everything_and_the_time_once_it_is_known(given, tmp_path):
    watch = Watch()
    results = sweep(given.study, runners(given), tmp_path / "s.sqlite", progress=watch)
    assert sorted(watch.cells) == [record.cell for record in results.records]
    assert watch.estimates[0].seconds is None
    assert all(left.seconds is not None for left in watch.estimates[1:])
    assert watch.estimates[-1] == (type(watch.estimates[-1]))(0, 0, 0, 0.0)
    for done, left in enumerate(watch.estimates):
        assert left.least <= len(watch.cells) - done <= left.most


def test_curves_and_what_is_missing_are_worked_out_once(given, tmp_path, monkeypatch):
    results = sweep(given.study, runners(given), tmp_path / "s.sqlite")
    fresh = read_results(tmp_path / "s.sqlite")
    asked = []
    monkeypatch.setattr(
        "depthlr.study.results.search_state", lambda *given: asked.append(given) or SimpleNamespace(missing=[])
    )
    assert results.curves is results.curves
    assert results.complete
    assert results.complete
    assert len(asked) == 1
    assert results == fresh  # what is kept aside is no part of it
    fewer = replace(results, records=results.records[:5])
    assert fewer != results
    assert len(fewer.curves) < len(results.curves)


def test_a_finished_sweep_trains_nothing(given, tmp_path):
    first = sweep(given.study, runners(given), tmp_path / "s.sqlite")
    assert sweep(given.study, Faltering(given, 0, RuntimeError("asked")), tmp_path / "s.sqlite") == first


@pytest.mark.parametrize("cells", [0, 1, 11, 24])
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(given, tmp_path, cells):
    path = tmp_path / "my study.sqlite"
    executor = Faltering(given, cells, KeyboardInterrupt())
    with pytest.raises(SweepInterrupted) as caught:
        sweep(given.study, executor, path)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert str(caught.value) == f"stopped with {cells} cells kept in {path}: make the same call again to go on"
    assert caught.value.cells == len(read_store(path).records)
    assert caught.value.cells == cells
    resumed = sweep(given.study, runners(given), path)
    assert to_csv(resumed) == to_csv(sweep(given.study, runners(given), tmp_path / "quiet.sqlite"))


def test_of_an_executor_that_fails_all_finished_cells_are_kept(given, tmp_path):
    executor = Faltering(given, 4, RuntimeError("out of memory"))
    with pytest.raises(RuntimeError, match="out of memory"):
        sweep(given.study, executor, tmp_path / "s.sqlite")
    assert len(read_store(tmp_path / "s.sqlite").records) == 4


def test_a_grid_search_has_cells_of_every_size_under_way_at_once(given, tmp_path):
    class Wide(LandscapeExecutor):
        """Trains the cells that wait from the last to the first."""

        def train_together(self, cells):
            yield from super().train_together(reversed(list(cells)))

    grid = landscape(7, study("grid", sizes=(3, 6, 12), points=5))
    watch = Watch()
    results = sweep(grid.study, Wide(grid), tmp_path / "wide.sqlite", progress=watch)
    assert [cell.size for cell in watch.cells] != sorted(cell.size for cell in watch.cells)
    assert to_csv(results) == to_csv(sweep(grid.study, LandscapeExecutor(grid), tmp_path / "one.sqlite"))


def test_a_damaged_record_is_reported_and_run_again(given, tmp_path):
    path = tmp_path / "s.sqlite"
    first = sweep(given.study, runners(given), path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE cells SET loss = 0 WHERE size = 6 AND seed = 1")
    connection.close()
    damaged = [record.cell for record in first.records if (record.cell.size, record.cell.seed) == (6, 1)]
    watch = Watch()
    again = sweep(given.study, runners(given), path, progress=watch)
    assert watch.damaged == damaged
    assert sorted(watch.cells) == damaged
    assert to_csv(again) == to_csv(first)


def test_a_record_of_no_cell_is_reported_once_and_its_cell_run_again(given, tmp_path):
    path = tmp_path / "s.sqlite"
    first = sweep(given.study, runners(given), path)
    for rate in ("'wide'", "NULL", "x'00'"):
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE cells SET rate = {rate} WHERE rowid = (SELECT min(rowid) FROM cells)")
        connection.close()
        watch, then = Watch(), Watch()
        again = sweep(given.study, runners(given), path, progress=watch)
        assert (len(watch.damaged), len(watch.cells)) == (1, 1)
        assert to_csv(again) == to_csv(first)
        sweep(given.study, runners(given), path, progress=then)
        assert (then.damaged, then.cells) == ([], [])


def test_users_code_that_exits_is_told_and_what_finished_is_kept(given, tmp_path):
    path = tmp_path / "s.sqlite"
    with pytest.raises(DepthlrError, match=r"called sys.exit\(3\): .* what a sweep had finished is kept"):
        sweep(given.study, Faltering(given, 4, SystemExit(3)), path)
    assert len(read_store(path).records) == 4


def test_a_study_that_diverges_everywhere_says_so_and_has_no_slope(given, tmp_path):
    hopeless = replace(given, losses=np.full(given.losses.shape, math.inf))
    results = sweep(given.study, runners(hopeless), tmp_path / "s.sqlite", depths=DEPTHS)
    assert results.complete
    assert all(curve.optimum is None for curve in results.curves)
    assert len(results.notes) == 9
    assert "every rate diverged, down to 0.0001" in results.notes[0]
    with pytest.raises(DepthlrError, match="two sizes or more"):
        results.fit()


@pytest.mark.parametrize(("slope", "word"), [(0.01, "lowest"), (-0.01, "highest")])
def test_an_optimum_on_the_edge_is_flagged_and_not_fitted(given, tmp_path, slope, word):
    losses = given.losses.copy()
    losses[1] = 2 + slope * np.arange(80)
    results = sweep(given.study, runners(replace(given, losses=losses)), tmp_path / "s.sqlite")
    assert len(results.notes) == 3
    for seed, note in enumerate(results.notes):
        assert note.startswith(f"size 6, seed {seed}: the optimum is the {word} rate allowed")
    assert [point.depth for point in results.fit().points] == [3, 12]


def test_an_unfinished_study_says_so(given, tmp_path):
    with pytest.raises(SweepInterrupted):
        sweep(given.study, Faltering(given, 9, KeyboardInterrupt()), tmp_path / "s.sqlite")
    results = read_results(tmp_path / "s.sqlite")
    assert not results.complete
    assert results.notes[-1] == "the sweep is not finished: run it again to go on"
    with pytest.raises(DepthlrError, match="pass depths="):
        results.fit("depth")


def test_depths_are_refused_by_a_fit_over_sizes(given, tmp_path):
    results = sweep(given.study, runners(given), tmp_path / "s.sqlite")
    for over in ({}, {"over": "size"}):
        with pytest.raises(DepthlrError, match=r"depths are for a fit over depth: ask for over='depth'"):
            results.fit(**over, depths=DEPTHS)
    assert [point.depth for point in results.fit("depth", DEPTHS).points] == [4, 7, 13]


def test_tables_of_equal_studies_are_equal_to_the_byte(given, tmp_path):
    one = sweep(given.study, runners(given), tmp_path / "1.sqlite", depths=DEPTHS)
    two = sweep(replace(given.study, name="2"), runners(given), tmp_path / "2.sqlite", depths=DEPTHS)
    assert to_csv(one) == to_csv(two)
    assert to_json(one) == to_json(two)
    head, first = to_csv(one).splitlines()[:2]
    assert head == "size,depth,seed,rate,loss,diverged"
    assert first.startswith("3,4,0,")
    assert to_csv(one, times=True).splitlines()[0] == head + ",seconds,finished"
    table = one.rows()
    assert [tuple(row.values())[:4] for row in table] == sorted(tuple(row.values())[:4] for row in table)
    assert [line["loss"] for line in json.loads(to_json(one))] == [
        None if row["diverged"] else row["loss"] for row in table
    ]
    assert all(math.isinf(row["loss"]) == row["diverged"] for row in table)


def test_the_last_epoch_alone_can_be_what_counts(tmp_path):
    class Falling(LandscapeExecutor):
        def run(self, cell):  # 28 steps are an epoch of 1,797 digits by 64
            return Outcome(np.array([9.0] * 4 + [cell.rate] * 28, dtype=np.float32), 0.1, False)

    base = study("grid", sizes=(3,), points=3, seeds=1)
    judged = replace(base, training=replace(base.training, metric="last_epoch", batch=64))
    given = landscape(0, judged)
    results = sweep(judged, Falling(given), tmp_path / "s.sqlite", examples=load("digits"))
    assert [record.loss for record in results.records] == pytest.approx(judged.search.rates)
    with pytest.raises(DepthlrError, match="pass the examples"):
        sweep(judged, Falling(given), tmp_path / "t.sqlite")
    assert not (tmp_path / "t.sqlite").exists()
