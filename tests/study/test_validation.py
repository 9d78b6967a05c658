"""Runs judged by held-out data: what is stored, and what older files without it still give."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from depthlr.data import load_digits
from depthlr.data.examples import Subset, one_pass, split
from depthlr.data.text import TextSet
from depthlr.errors import DepthlrError
from depthlr.study import Results, parse_study, read_results, sweep, to_csv
from depthlr.study.record import Judge, judge_of, make_record, read_record
from depthlr.study.tasks import data_digest, load_data, task_at
from depthlr.training.cell import Cell, Evaluation, Outcome, failed_outcome
from depthlr.training.local import open_executor

TEXT = """
[model]
spec = "mlp?width=16"
vary = "layers"
sizes = [1, 2]
[data]
validation = 300
[training]
steps = 20
batch = 32
metric = "validation"
evaluate_at = [0.5]
[search]
kind = "grid"
low = 0.01
high = 1.0
points = 3
seeds = 1
"""


def swept(tmp_path, text: str = TEXT):
    study = parse_study(text)
    examples, held_out = load_data(study)
    path = tmp_path / "s.sqlite"
    with open_executor(partial(task_at, study, examples=examples, held_out=held_out), workers=1) as runner:
        return sweep(study, runner, path, examples=examples, held_out=held_out), path


def test_a_sweep_is_judged_by_the_last_evaluation_and_keeps_all_of_them(tmp_path) -> None:
    results, path = swept(tmp_path)
    for kept in results.records:
        middle, last = kept.evaluated()
        assert (middle.steps, last.steps) == (10, 20)
        assert kept.loss == last.loss
        assert 0 <= last.accuracy <= 1
    assert to_csv(read_results(path)) == to_csv(results)


def test_the_metric_changes_the_judgement_and_nothing_of_the_runs(tmp_path) -> None:
    (tmp_path / "a").mkdir()
    by_validation, _ = swept(tmp_path / "a")
    by_budget, _ = swept(tmp_path, TEXT.replace('metric = "validation"', 'metric = "budget"'))
    for one, other in zip(by_validation.records, by_budget.records, strict=True):
        assert (one.losses, one.evaluations) == (other.losses, other.evaluations)
        assert one.loss != other.loss


def test_a_run_without_a_finite_evaluation_has_diverged() -> None:
    losses = np.ones(4, np.float32)
    for evaluations in ((), (Evaluation(4, math.nan, None),)):
        kept = make_record(Cell(1, 0, 0.1), Outcome(losses, 1.0, False, evaluations), Judge("validation"))
        assert kept.diverged
        assert kept.loss == math.inf


def test_a_changed_evaluation_is_seen() -> None:
    outcome = Outcome(np.ones(4, np.float32), 1.0, False, (Evaluation(4, 0.5, 0.25),))
    row = list(make_record(Cell(1, 0, 0.1), outcome, Judge("validation")).row())
    assert read_record(row).evaluated() == outcome.evaluations
    row[-2] = np.array([4, 0.4, 0.25]).tobytes()
    assert read_record(row) is None


def test_a_file_from_before_evaluations_is_read_and_goes_on(tmp_path) -> None:
    plain = TEXT.replace('metric = "validation"\nevaluate_at = [0.5]', "").replace("validation = 300", "")
    results, path = swept(tmp_path, plain)
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE cells DROP COLUMN evaluations")
        connection.execute("ALTER TABLE cells DROP COLUMN failure")
        connection.execute("DELETE FROM cells WHERE size = 2")
    assert len(read_results(path).records) == 3
    again, _ = swept(tmp_path, plain)
    assert to_csv(again) == to_csv(results)


@pytest.mark.parametrize("held_out", [300, 0.2])
def test_a_split_parts_the_examples(held_out) -> None:
    examples = load_digits()
    kept, out = split(examples, held_out)
    assert isinstance(kept, Subset)
    assert isinstance(out, Subset)
    assert sorted([*kept.indices.tolist(), *out.indices.tolist()]) == list(range(len(examples)))
    inputs, target = out.batch(torch.tensor([3]))
    expected = examples.batch(out.indices[3:4])
    assert torch.equal(inputs, expected[0])
    assert torch.equal(target, expected[1])
    assert len({kept.digest, out.digest, examples.digest, data_digest(kept, out)}) == 4
    assert data_digest(kept, out) == data_digest(*split(examples, held_out))


def test_windows_of_a_text_that_do_not_overlap_are_drawn() -> None:
    kept, out = split(numbered(stride=8), 6)
    assert len(numbered(stride=8)) == len(kept) + len(out) == 24
    seen = [set(part.batch(one_pass(part))[0].flatten().tolist()) for part in (kept, out)]
    assert not seen[0] & seen[1]
    assert out.indices.tolist() != list(range(18, 24))


def numbered(stride: int) -> TextSet:
    letters = "".join(map(chr, range(200)))
    return TextSet("text", torch.arange(200, dtype=torch.uint8), 8, letters, "digest", "ours", stride=stride)


def test_a_text_is_cut_and_its_windows_do_not_overlap() -> None:
    text = numbered(stride=1)
    kept, out = split(text, 32)
    assert torch.equal(torch.cat([kept.ids, out.ids]), text.ids)
    assert (len(out), len(kept.ids)) == (32, 160)
    windows = out.batch(one_pass(out))[0]
    assert windows.flatten().unique().numel() == windows.numel()


@pytest.mark.parametrize("count", [0, 1797, 10**6])
def test_a_split_that_leaves_nothing_is_refused(count: int) -> None:
    with pytest.raises(DepthlrError, match="The number of held-out examples"):
        split(load_digits(), count)


def test_a_named_split_is_evaluated_on(tmp_path) -> None:
    (tmp_path / "own_parts.py").write_text(
        "import torch\n"
        "def parts(split='train'):\n"
        "    return [(torch.full((8, 4), float(split == 'test')), torch.zeros(8, dtype=torch.int64))]\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        examples, held_out = load_data(
            parse_study(TEXT.replace("validation = 300", 'name = "own_parts:parts"\nvalidation = "test"'))
        )
    assert examples.batch(torch.tensor([0]))[0].tolist() == [[0.0] * 4]
    assert held_out.batch(torch.tensor([0]))[0].tolist() == [[1.0] * 4]
    with pytest.raises(DepthlrError, match="digits has no split 'test'"):
        load_data(parse_study(TEXT.replace("validation = 300", 'validation = "test"')))


def test_a_metric_without_held_out_data_is_refused() -> None:
    with pytest.raises(DepthlrError, match="say what to evaluate on"):
        parse_study(TEXT.replace("validation = 300", ""))


def test_the_metric_of_a_study_and_the_length_of_its_epoch_decide_by_what_cells_are_judged() -> None:
    by_validation, examples = parse_study(TEXT), load_digits()
    assert judge_of(by_validation, examples) == Judge("validation")
    epochs = replace(by_validation.training, metric="last_epoch", steps=None, epochs=2, batch=100, evaluate_at=None)
    assert judge_of(replace(by_validation, training=epochs), examples) == Judge("last_epoch", 17)
    assert judge_of(replace(by_validation, training=replace(epochs, metric="budget")), None) == Judge("budget")


def test_stored_metrics_can_be_switched(tmp_path) -> None:
    results, _ = swept(tmp_path)
    first = results.records[0]
    losses = np.frombuffer(first.losses, "<f4").astype(float)
    middle, last = first.evaluated()
    expected = {
        "validation": last.loss,
        "validation@0.5": middle.loss,
        "budget": losses.mean(),
        "error": 1 - last.accuracy,
    }
    for metric, loss in expected.items():
        view = results.by(metric)
        assert view.metric == metric
        assert view.rows()[0]["loss"] == pytest.approx(loss)
        assert view.curves[0].losses[0] == pytest.approx(loss)
        assert view.complete == results.complete
    assert to_csv(results.by("validation")) == to_csv(results)


def test_a_small_share_of_the_steps_is_a_metric_too(tmp_path) -> None:
    results, _ = swept(tmp_path, TEXT.replace("[0.5]", "[0.00002]"))
    first = results.records[0].evaluated()[0]
    assert results.metrics == ("validation", "budget", "validation@2e-05", "error")
    assert results.by("validation@2e-05").rows()[0]["loss"] == first.loss


@pytest.mark.parametrize("metric", ["last_epoch", "validation@0.3", "validation@x", "typo"])
def test_a_metric_that_was_not_stored_is_a_sentence(metric: str, tmp_path) -> None:
    results, _ = swept(tmp_path)
    stored = r"validation, budget, validation@0\.5, error"
    with pytest.raises(DepthlrError, match=rf"was not stored .*: choose from {stored}\.$"):
        results.by(metric)


def test_before_the_first_cell_the_metrics_are_those_that_the_study_will_store() -> None:
    empty = Results(parse_study(TEXT), ())
    assert empty.metrics == ("validation", "budget", "validation@0.5", "error")
    assert empty.by("error").metric == "error"
    with pytest.raises(DepthlrError, match="was not stored"):
        empty.by("typo")


def test_a_metric_that_is_not_finite_is_judged_as_infinite() -> None:
    study = parse_study(TEXT.replace('metric = "validation"', 'metric = "budget"'))
    outcome = Outcome(np.ones(20, np.float32), 1.0, False, (Evaluation(20, math.nan, 0.5),))
    results = Results(study, (make_record(Cell(1, 0, 0.1), outcome, Judge("budget")),))
    assert results.by("validation").rows()[0]["loss"] == math.inf
    assert results.by("error").rows()[0]["loss"] == 0.5


def test_error_is_compared_with_the_error_of_guessing(tmp_path) -> None:
    study = parse_study(TEXT.replace("points = 3", "points = 5").replace("sizes = [1, 2]", "sizes = [1]"))
    losses, rates = np.ones(20, np.float32), study.search.rates
    records = []
    for rate, accuracy in zip(rates, (0.1, 0.11, 0.12, 0.11, 0.1), strict=True):
        outcome = Outcome(losses, 1.0, False, (Evaluation(20, 1.0, accuracy),))
        records.append(make_record(Cell(1, 0, rate), outcome, Judge("validation")))
    (why,) = Results(study, tuple(records)).by("error").doubts.values()
    assert "its best validation error, 0.88, is less than 4% below that of guessing, 0.9" in why


def test_failed_cells_are_noted() -> None:
    study = parse_study(TEXT)
    kept = make_record(Cell(1, 0, 0.1), failed_outcome("ValueError: no luck", 1.0), Judge("validation"))
    (note,) = Results(study, (kept,)).failures
    assert note.startswith(
        "1 cell failed and counts as worse than any loss (size 1, seed 0, rate 0.1: ValueError: no luck)"
    )
    other = make_record(Cell(1, 0, 0.2), failed_outcome("another", 1.0), Judge("validation"))
    assert "2 cells failed" in " ".join(Results(study, (kept, other)).notes)
    assert not Results(study, ()).failures
