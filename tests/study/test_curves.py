"""Which best rates say little: a size that hardly learns, or whose dip is no deeper than the noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.present.made_results import results_of

from depthlr.errors import DepthlrError
from depthlr.present.findings import findings
from depthlr.present.landscape import text_landscape
from depthlr.present.page import page, plot_data
from depthlr.present.report import markdown
from depthlr.present.scaling import scaling
from depthlr.present.text import loss_label
from depthlr.study import Data, Models, Record, Results, Search, Study, Training
from depthlr.study.curves import chance_loss, doubts
from depthlr.study.follow import Snapshot
from depthlr.study.search import missing_cells
from depthlr.training.cell import Cell


def swept(bend: float, noise: float, seed: int, *, least: float = 1.0, diverges: float = math.inf) -> Results:
    """An adaptive sweep of bowls of this curvature in log loss over log rate, with noise upon them."""
    study = Study("made", Models("mlp?width=8", "layers", (2, 4, 8)), Training(steps=2), search=Search(points=80))
    random, known = np.random.default_rng(seed), {}

    def loss(cell: Cell) -> float:
        x = math.log10(cell.rate * cell.size / 0.2)
        return math.inf if x > diverges else least * math.exp(bend * x * x + noise * random.normal())

    while cells := list(missing_cells(study.search, study.model.sizes, known)):
        known |= {cell: loss(cell) for cell in cells}
    records = [Record(cell, loss, math.isinf(loss), 1.0, "2026-01-01", b"") for cell, loss in sorted(known.items())]
    return Results(study, tuple(records), {2: 3, 4: 5, 8: 9})


def share(*options: float, **more: float) -> float:
    """How many of 60 sizes are in doubt."""
    return sum(len(swept(*options, seed, **more).doubts) for seed in range(20)) / 60


def test_noise_without_a_dip_is_told_from_a_dip() -> None:
    assert share(0.0, 0.02) > 0.8
    assert share(0.3, 0.02) < 0.1
    assert share(0.3, 0.0) == 0
    assert share(0.3, 0.002, diverges=0.1) < 0.05  # the best rate lies just below those that diverge


def test_a_loss_near_that_of_guessing_is_named_with_both() -> None:
    assert swept(0.3, 0.001, 0).doubts == {}
    near = swept(0.3, 0.001, 0, least=2.25).doubts
    assert set(near) == {2, 4, 8}
    said = "hardly learns: its best loss, 2.25, is less than 4% below that of guessing, 2.3"
    assert all(why == said for why in near.values())


def test_a_held_out_loss_is_called_so_and_guessing_is_the_same() -> None:
    made = swept(0.3, 0.001, 0, least=2.25)
    held_out = replace(made.study, training=Training(steps=2, metric="validation"), data=Data(validation=0.1))
    near = replace(made, study=held_out)
    assert chance_loss(held_out) == chance_loss(made.study)
    assert set(near.doubts) == {2, 4, 8}
    assert all("its best validation loss, 2.25, is less than 4% below" in why for why in near.doubts.values())
    assert loss_label(near) == "validation loss (nats)"


def test_guessing_is_known_of_our_classifiers_alone() -> None:
    study = swept(0.3, 0.0, 0).study
    assert chance_loss(study) == pytest.approx(math.log(10))
    three = replace(study, model=replace(study.model, spec="mlp?width=8&classes=3"))
    assert chance_loss(three) == pytest.approx(math.log(3))
    assert chance_loss(replace(study, model=replace(study.model, spec="mine:build"))) is None
    assert chance_loss(replace(study, training=replace(study.training, loss="mine:loss"))) is None
    own = replace(swept(0.3, 0.001, 0, least=2.25), study=replace(study, model=replace(study.model, spec="mine:build")))
    assert own.doubts == {}


def test_of_cells_that_another_program_trained_guessing_is_not_known() -> None:
    assert replace(swept(0.3, 0.001, 0, least=2.25), described=False).doubts == {}


def test_few_cells_show_no_noise() -> None:
    few = results_of({(4, 0): {1e-2: 1.2, 1e-1: 1.0, 1.0: 1.2}, (8, 0): {1e-2: 1.0, 1e-1: 1.0}})
    assert doubts(few.curves, None) == {}


def failing(results: Results, fails: Callable[[Cell], bool]) -> Results:
    """The same sweep, had these cells failed."""
    records = [
        replace(record, loss=math.inf, diverged=True, failure="no luck") if fails(record.cell) else record
        for record in results.records
    ]
    return replace(results, records=tuple(records))


def test_a_failed_cell_near_the_optimum_is_no_sign_of_a_flat_curve() -> None:
    sound = swept(0.3, 0.001, 0)
    assert sound.doubts == {}
    best = {(curve.size, curve.seed): curve.optimum for curve in sound.curves}

    def near(cell: Cell) -> bool:
        ratio = cell.rate / best[cell.size, cell.seed].rate
        return ratio != 1 and 0.8 < ratio < 1.2

    failed = failing(sound, near)
    assert failed.failures
    assert failed.tuned_rates == sound.tuned_rates
    assert doubts(failed.curves, None) == {}


def test_failed_cells_are_not_called_diverged() -> None:
    whole = results_of({(3, 0): {1e-3: 1.0, 1e-2: 0.9}, (3, 1): {1e-3: math.inf, 1e-2: math.inf}})
    words = "size 3, seed 1: every rate diverged, down to 0.001, so it has no optimum; lower the lowest rate"
    assert any(words in note for note in whole.notes)
    for fails, said in (
        (lambda cell: cell.seed == 1, "every cell failed"),
        (lambda cell: cell.seed == 1 and cell.rate > 5e-3, "1 of 2 cells failed and the others diverged"),
    ):
        failed = failing(whole, fails)
        again = "--retry-failed, or retry_failed=True, trains the failed cells again"
        assert f"size 3, seed 1: {said}, so it has no optimum; {again}" in failed.notes
        assert "lower the lowest rate" not in " ".join(failed.notes)


def test_failed_and_diverged_cells_are_counted_apart() -> None:
    whole = results_of({(3, 0): {1e-3: 1.0, 1e-2: 0.9, 1e-1: math.inf, 1.0: math.inf}})
    for fails, said, key in (
        (lambda cell: False, "4 trained, 2 of them diverged", "× diverged"),
        (lambda cell: cell.rate == 1, "3 trained, 1 of them diverged; 1 failed", "× diverged or failed"),
        (lambda cell: cell.rate > 0.05, "2 trained, 0 of them diverged; 2 failed", "× failed"),
    ):
        results = failing(whole, fails)
        assert f"Cells: {said}\n" in markdown(findings(Snapshot(results, None, 0)))
        assert f"{key}, ◆ best rate" in text_landscape(results, 100)


def test_a_page_tells_failed_cells_from_diverged_ones() -> None:
    whole = results_of({(3, 0): {1e-3: 1.0, 1e-1: math.inf, 1.0: math.inf}})
    assert plot_data(findings(Snapshot(whole, None, 0)))["curves"][0][6:] == []
    failed = failing(whole, lambda cell: cell.rate == 1)
    assert plot_data(findings(Snapshot(failed, None, 0)))["curves"][0][3:] == [[1.0, None, None], 0, None, [2]]


def test_no_plot_of_failed_cells_alone_says_to_lower_the_rates() -> None:
    failed = failing(results_of({(3, 0): {1e-1: math.inf, 1.0: math.inf}}), lambda cell: True)
    with pytest.raises(DepthlrError, match=r"Every run of the study failed, so there is .*: --retry-failed, or"):
        scaling(failed)


def test_table_report_and_fit_say_so() -> None:
    results = swept(0.3, 0.001, 0, least=2.25)
    found = findings(Snapshot(results, None, 0))
    assert sum("hardly learns" in note for note in results.notes) == 3
    assert found.verdict.endswith("But 3 of 3 sizes hardly learn or have no clear optimum.")
    told = page(found)
    for row in found.rows[:3]:
        assert row.doubt is not None
    assert told.count("<em>hardly learns</em>") == 3
    assert " ? |" in markdown(found)
    sound = findings(Snapshot(swept(0.3, 0.001, 0), None, 0))
    assert "hardly" not in page(sound) + sound.verdict


def test_sizes_that_are_still_being_searched_are_not_judged() -> None:
    whole = swept(0.3, 0.001, 0, least=2.25)
    some = replace(whole, records=tuple(record for record in whole.records if record.cell.size < 8))
    assert set(some.doubts) == {2, 4}
    assert some.notes[-1].startswith("the sweep is not finished")
