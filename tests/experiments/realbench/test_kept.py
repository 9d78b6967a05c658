"""A sweep goes on from its table alone, and ends as if it had never been cut off."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.experiments.realbench.tiny import tiny_recipe, with_seeds, write_sweep

from depthlr.errors import DepthlrError
from depthlr.models.build import build
from depthlr.study.tasks import load_data, task_at
from depthlr.training.cell import Cell
from depthlr.training.executor import BySize
from depthlr.training.serial import SerialRunner
from experiments.realbench import oracle
from experiments.realbench.kept import known_rows, read_facts, read_rows, same_runs
from experiments.realbench.oracle import sweep_recipe, train_rates
from experiments.realbench.recipes import recipe_named

TIMES = {"seconds"}


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    """Cells are trained in this process, and counted."""
    trained = []

    class Counting(SerialRunner):
        def run(self, cell):
            trained.append(cell)
            return super().run(cell)

    @contextmanager
    def open_executor(make_task):
        yield BySize(lambda size: Counting(make_task(size), "cpu"))

    monkeypatch.setattr(oracle, "open_executor", open_executor)
    return trained


@pytest.fixture
def whole(tmp_path, one_process):
    """The table of a sweep that nothing disturbed."""
    folder = tmp_path / "whole"
    assert sweep_recipe(tiny_recipe(), Path(), folder / "work", folder)
    return folder / "tiny.csv"


def without_times(path: Path):
    return {cell: {k: v for k, v in row.items() if k not in TIMES} for cell, row in read_rows(path).items()}


def keep_first(path: Path, out: Path, count: int) -> None:
    """What a sweep that was cut off after so many runs has committed."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(path.read_text().splitlines()[: count + 1]) + "\n")
    facts = json.loads(path.with_suffix(".json").read_text()) | {"complete": False, "runs": count}
    out.with_suffix(".json").write_text(json.dumps(facts))


def test_a_sweep_goes_on_from_its_table_where_the_work_folder_is_gone(whole, tmp_path, one_process):
    cells = list(read_rows(whole))
    keep_first(whole, tmp_path / "tables" / "tiny.csv", 5)
    one_process.clear()
    assert sweep_recipe(tiny_recipe(), Path(), tmp_path / "new", tmp_path / "tables")
    assert not set(cells[:5]) & set(one_process)
    assert len(one_process) == len(cells) - 5
    assert without_times(tmp_path / "tables" / "tiny.csv") == without_times(whole)
    assert read_facts(tmp_path / "tables" / "tiny.csv")["complete"]
    # The rows that were there are there as they were written, times included.
    assert [read_rows(tmp_path / "tables" / "tiny.csv")[cell] for cell in cells[:5]] == [
        read_rows(whole)[cell] for cell in cells[:5]
    ]


def test_a_sweep_whose_time_is_up_keeps_its_runs_and_goes_on(whole, tmp_path, one_process):
    for _ in range(2 * len(read_rows(whole))):
        one_process.clear()
        done = sweep_recipe(tiny_recipe(), Path(), tmp_path / "work", tmp_path, seconds=0.0)
        assert len(one_process) == 1  # the run in work is finished
        assert read_facts(tmp_path / "tiny.csv")["complete"] == done
        if done:
            break
    assert without_times(tmp_path / "tiny.csv") == without_times(whole)


def test_a_finished_table_trains_nothing(whole, tmp_path, one_process):
    one_process.clear()
    before = without_times(whole)
    assert sweep_recipe(tiny_recipe(), Path(), tmp_path / "new", whole.parent)
    assert one_process == []
    assert without_times(whole) == before


def test_a_table_of_another_study_is_refused_and_kept(whole, tmp_path):
    before = whole.read_bytes()
    with pytest.raises(DepthlrError, match="of another study"):
        sweep_recipe(tiny_recipe(steps=12), Path(), tmp_path / "new", whole.parent)
    assert whole.read_bytes() == before


def test_a_failed_run_is_no_row_and_is_tried_again(tmp_path, monkeypatch):
    recipe, calls = tiny_recipe(), []

    class Failing(SerialRunner):
        def run(self, cell):
            calls.append(cell)
            if len(calls) == 1:
                raise RuntimeError("out of memory")
            return super().run(cell)

    @contextmanager
    def open_executor(make_task):
        yield BySize(lambda size: Failing(make_task(size), "cpu"))

    monkeypatch.setattr(oracle, "open_executor", open_executor)
    assert not _complete_after(recipe, tmp_path)
    assert calls[0] not in read_rows(tmp_path / "tiny.csv")
    assert _complete_after(recipe, tmp_path)
    assert calls.count(calls[0]) == 2


def _complete_after(recipe, folder):
    sweep_recipe(recipe, Path(), folder / "work", folder)
    return read_facts(folder / "tiny.csv")["complete"]


def test_chosen_rates_are_trained_once_in_the_order_asked(tmp_path, one_process):
    recipe = tiny_recipe()
    cells = [Cell(2, 0, 0.03), Cell(1, 1, 0.01), Cell(1, 0, 0.123456789)]
    place = tmp_path / "work" / "one.sqlite", tmp_path / "tables" / "regret" / "tiny.csv"
    assert not train_rates(recipe, cells, Path(), *place, seconds=0.0, at_once=1)
    assert one_process == cells[:1]
    assert not read_facts(place[1])["complete"]
    place[0].unlink()  # another machine
    assert train_rates(recipe, [*cells, cells[0]], Path(), *place)
    assert one_process == cells
    assert set(read_rows(place[1])) == set(cells)
    assert read_facts(place[1])["complete"]


def test_a_run_at_a_chosen_rate_is_the_sweeps_run(whole, tmp_path):
    cell = list(read_rows(whole))[3]
    train_rates(tiny_recipe(), [cell], Path(), tmp_path / "one.sqlite", tmp_path / "regret" / "tiny.csv")
    assert without_times(tmp_path / "regret" / "tiny.csv")[cell] == without_times(whole)[cell]


def test_a_sweep_judged_by_training_loss_begins_with_the_runs_of_the_other(whole, tmp_path, one_process, monkeypatch):
    recipe = replace(tiny_recipe(metric="budget"), name="tiny+metricbudget")
    one_process.clear()
    assert sweep_recipe(recipe, Path(), tmp_path / "new", whole.parent)
    shared = read_rows(whole)
    assert not set(shared) & set(one_process)
    found = read_rows(whole.parent / "tiny+metricbudget.csv")
    assert set(found) == set(shared) | set(one_process)
    # It is the search that the training loss asks for: from nothing, it wants no run that is not there.
    one_process.clear()
    alone = tmp_path / "alone"
    sweep_recipe(replace(recipe, name="alone"), Path(), alone, alone)
    assert set(read_rows(alone / "alone.csv")) <= set(found)


def test_same_runs_are_named_by_what_a_variant_changes(tmp_path):
    assert same_runs(recipe_named("gpt2-adamw-cosine?steps=150&metric=budget")) == {
        "gpt2-adamw-cosine+steps150": (2, 4, 8, 16)
    }
    for variant in ("vit-adamw-cosine?power=0.5", "vit-adamw-cosine?power=0.5&seeds=0"):
        assert same_runs(recipe_named(variant)) == {"vit-adamw-cosine": (2,)}
    for name in ("vit-adamw-cosine", "vit-adamw-cosine?steps=300", "vit-adamw-cosine?power=0.5&steps=300"):
        assert same_runs(recipe_named(name)) == {}
    write_sweep(tmp_path, "vit-adamw-cosine", {2: -3.0, 4: -3.1})
    known = known_rows(recipe_named("vit-adamw-cosine?power=0.5"), tmp_path)
    assert {cell.size for cell in known} == {2}
    assert known_rows(with_seeds(recipe_named("vit-adamw-cosine?power=0.5"), 2), tmp_path) == {}


@pytest.mark.parametrize("name", ["gpt2-adamw-cosine", "llama-adamw-wsd", "vit-adamw-cosine"])
def test_a_twin_at_the_smallest_size_is_the_model_itself(name):
    """Else its runs could not be taken over."""
    inputs = "3x32x32" if name.startswith("vit") else "ids:256:256"
    outputs = {}
    for size in (2, 4):
        for power in (0.0, 0.5, 1.0):
            spec = recipe_named(f"{name}?power={power}&width=64").study.model.spec_at(size)
            torch.manual_seed(0)
            model, example = build(spec, input=inputs)
            with torch.no_grad():
                found = model(**example) if isinstance(example, dict) else model(*example)
            outputs[size, power] = getattr(found, "logits", found)
    assert torch.equal(outputs[2, 0.0], outputs[2, 1.0])
    assert not torch.equal(outputs[4, 0.0], outputs[4, 0.5])
    assert not torch.equal(outputs[4, 0.5], outputs[4, 1.0])


def test_the_tiny_recipe_is_judged_by_validation_loss():
    study = tiny_recipe().study
    examples, held_out = load_data(study)
    assert task_at(study, 1, examples, held_out).held_out is held_out
