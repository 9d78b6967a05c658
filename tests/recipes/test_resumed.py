"""A job whose work is gone goes on from its tables, and from no others."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.recipes.test_running import EPOCH_1, FOREVER, CellsLeft, facts, table

from depthlr.errors import DepthlrError
from depthlr.recipes.main import CIFAR10_CNN
from depthlr.recipes.pathsum import RESNET_ENERGY
from depthlr.recipes.running import plain_grid
from depthlr.recipes.running.jobs import run_job
from depthlr.recipes.running.recalled import beginnings
from depthlr.recipes.running.resumed import resume_tables
from depthlr.recipes.zero_shot import VIT_384_EPOCH_3
from depthlr.study.results import read_results


@pytest.mark.parametrize("setting", [VIT_384_EPOCH_3, CIFAR10_CNN, RESNET_ENERGY], ids=lambda s: s.name)
@pytest.mark.parametrize("looks", [1, 1000], ids=["unfinished", "finished"])
def test_the_table_is_that_of_an_undisturbed_run(job, setting, looks) -> None:
    whole, begun = job(setting), job(setting, "begun", "out2")
    assert run_job(whole, FOREVER)
    assert run_job(begun, CellsLeft(looks)) == (looks == 1000)
    before = facts(begun)
    clone = replace(job(setting, "clone", "out2"), resume_tables=True)
    assert run_job(clone, FOREVER)
    for kind in ("csv", "carried.csv"):
        assert whole.out.file(kind).is_file() == clone.out.file(kind).is_file()
        if whole.out.file(kind).is_file():
            assert table(clone, kind) == table(whole, kind)
    assert facts(clone)["complete"] is True
    if before["complete"]:
        assert facts(clone)["sweep_seconds"] == before["sweep_seconds"], "nothing is measured twice"
    else:
        assert 0 < before["cells"] < facts(clone)["cells"]


def test_the_time_of_the_plain_grid_is_kept(job, monkeypatch) -> None:
    done = job(CIFAR10_CNN)
    assert run_job(done, FOREVER)
    timed = facts(done)["plain_grid_seconds"]
    assert timed > 0
    monkeypatch.setattr(plain_grid, "train_plainly", None)  # would fail
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
    assert beginnings(shorter.longer, shorter.study, steps=2) == {}
    assert run_job(shorter, FOREVER)
