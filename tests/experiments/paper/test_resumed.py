"""A job whose work is gone goes on from its tables, and from no others."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.experiments.paper.test_running import EPOCH_1, FOREVER, CellsLeft, facts, table

from depthlr.errors import DepthlrError
from depthlr.study.results import read_results
from depthlr.study.store import read_store
from experiments.paper.recipes import CIFAR10_CNN, RESNET_ENERGY, VIT_384_EPOCH_3
from experiments.paper.running import carried, energies, sweep
from experiments.paper.running.run import resume_tables, run_job
from experiments.paper.running.sweep import beginnings
from experiments.running import Deadline

SETTINGS = pytest.mark.parametrize("setting", [VIT_384_EPOCH_3, CIFAR10_CNN, RESNET_ENERGY], ids=lambda s: s.name)
ANOTHER = {"device": "NVIDIA H200", "torch": "2.11.0", "depthlr": "0.1.0", "python": "3.12.3"}


@SETTINGS
def test_an_unfinished_one_goes_on_to_the_table_of_an_undisturbed_run(job, setting) -> None:
    whole, begun = job(setting), job(setting, "begun", "out2")
    assert run_job(whole, FOREVER)
    assert not run_job(begun, CellsLeft(1))
    before = facts(begun)
    clone = replace(job(setting, "clone", "out2"), resume_tables=True)
    assert run_job(clone, FOREVER)
    for kind in ("csv", "carried.csv"):
        assert whole.out.file(kind).is_file() == clone.out.file(kind).is_file()
        if whole.out.file(kind).is_file():
            assert table(clone, kind) == table(whole, kind)
    assert facts(clone)["complete"] is True
    assert 0 < before["cells"] < facts(clone)["cells"]


@SETTINGS
def test_nothing_of_a_finished_one_is_measured_again_and_all_that_was_known_is_kept(job, setting, monkeypatch) -> None:
    done = job(setting)
    assert run_job(done, FOREVER)
    before = facts(done) | {"at_once": 3, "sweep_seconds": 1000.0}
    if "environments" in before:
        before |= {"environments": [ANOTHER, *before["environments"]], "plain_grid_is": "timed by hand"}
    if before.get("carried_seconds"):
        before["carried_seconds"] = 2000.0
    done.out.file("json").write_text(json.dumps(before))
    cells = done.out.file("csv").read_bytes()
    monkeypatch.setattr("experiments.running.open_executor", None)
    for place in (energies, carried):
        monkeypatch.setattr(place, "initial_energies", None)
    assert run_job(replace(job(setting, "clone"), resume_tables=True), FOREVER)
    assert done.out.file("csv").read_bytes() == cells
    after = facts(done)
    if before.get("carried_seconds"):  # looking for what is missing takes its time
        assert after.pop("carried_seconds") == pytest.approx(before.pop("carried_seconds"), abs=30)
    assert after == before


def test_a_refused_table_leaves_no_work(job) -> None:
    done = job(VIT_384_EPOCH_3)
    assert run_job(done, FOREVER)
    done.out.file("carried.csv").write_text("rule,size\nlaw,2\n")
    before = done.out.file("json").read_bytes()
    clone = replace(job(VIT_384_EPOCH_3, "clone"), resume_tables=True)
    for _ in range(2):
        with pytest.raises(DepthlrError, match=r"carried\.csv lacks the column"):
            run_job(clone, FOREVER)
    assert not clone.work.folder.exists()
    assert done.out.file("json").read_bytes() == before


def test_a_first_call_that_was_stopped_is_no_work(job) -> None:
    done = job(CIFAR10_CNN)
    assert run_job(done, FOREVER)
    clone = job(CIFAR10_CNN, "clone")
    assert not run_job(clone, Deadline(0.0))
    assert clone.store.is_file()
    resume_tables(clone)
    assert len(read_results(clone.store).records) == facts(done)["cells"]


@pytest.mark.parametrize("setting", [CIFAR10_CNN, RESNET_ENERGY], ids=lambda s: s.name)
def test_work_that_holds_less_than_the_table_is_refused(job, setting) -> None:
    assert run_job(job(setting), FOREVER)
    begun = job(setting, "begun")
    assert not run_job(begun, CellsLeft(1))
    with pytest.raises(DepthlrError, match=r"fewer than the .*: delete the first"):
        run_job(replace(begun, resume_tables=True), FOREVER)


def test_the_time_of_the_plain_grid_is_kept(job, monkeypatch) -> None:
    done = job(CIFAR10_CNN)
    assert run_job(done, FOREVER)
    timed = facts(done)["plain_grid_seconds"]
    assert timed > 0
    monkeypatch.setattr(sweep, "train_plainly", None)  # would fail
    for at_once in (1, 2):
        assert run_job(replace(job(CIFAR10_CNN, f"clone-{at_once}"), resume_tables=True, at_once=at_once), FOREVER)
        assert facts(done)["plain_grid_seconds"] == timed


def test_work_that_is_there_is_left_as_it_is(job) -> None:
    begun = job(CIFAR10_CNN)
    assert not run_job(begun, CellsLeft(2))
    before = read_results(begun.store).records
    resume_tables(begun)
    assert read_results(begun.store).records == before
    assert all(record.losses for record in before)


@pytest.mark.parametrize("changed", ["study", "data"])
def test_tables_of_something_else_are_refused(job, changed) -> None:
    done = job(CIFAR10_CNN)
    assert run_job(done, FOREVER)
    clone = replace(job(CIFAR10_CNN, "clone"), resume_tables=True)
    if changed == "study":
        training = replace(clone.study.training, optimizer="adam")
        clone = replace(clone, study=replace(clone.study, training=training))
    else:
        written = facts(done) | {"data": facts(done)["data"] | {"digest": "0" * 64}}
        done.out.file("json").write_text(json.dumps(written))
    before = done.out.file("csv").read_bytes()
    with pytest.raises(
        DepthlrError, match=r"another study \(training.optimizer" if changed == "study" else "other data"
    ):
        run_job(clone, FOREVER)
    assert not clone.store.exists()
    assert done.out.file("csv").read_bytes() == before


def test_a_table_lends_no_beginnings(job) -> None:
    """It has no loss of every step."""
    assert run_job(job(VIT_384_EPOCH_3), FOREVER)
    assert run_job(replace(job(VIT_384_EPOCH_3, "clone"), resume_tables=True), FOREVER)
    shorter = job(EPOCH_1, "clone", "out2")
    assert shorter.longer.is_file()
    assert beginnings(read_store(shorter.longer), shorter.study, 2, shorter.examples().digest) == {}
    assert run_job(shorter, FOREVER)
